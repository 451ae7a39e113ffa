"""What a broker is made of, out of it and into it: vhosts, users, rights, policies, parameters, exchanges, queues, bindings.

Each kind has a module, in which stands all that is known of how it is written: `facts` is what RabbitMQ's definitions file
says of one, `read` makes what an entry of such a file says, `restore` what a row of storage says; a kind that the settings
may have, too, is a `Definition` there. `kind.py` has them in the order in which one needs the other.
"""
