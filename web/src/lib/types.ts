// What the API says of things, as far as the page shows it.

import type { Details } from "./samples";

export type Stats = Record<string, number | Details | undefined>;
export type Table = Record<string, unknown>;

export interface Queue {
  name: string;
  vhost: string;
  type: string;
  durable: boolean;
  auto_delete: boolean;
  exclusive: boolean;
  arguments: Table;
  node: string;
  leader?: string;
  members?: string[];
  online?: string[];
  policy: string | null;
  operator_policy: string | null;
  effective_policy_definition?: Table;
  messages: number;
  messages_ready: number;
  messages_ready_details?: Details;
  messages_unacknowledged: number;
  messages_unacknowledged_details?: Details;
  message_bytes?: number;
  messages_ram?: number;
  message_bytes_ram?: number;
  memory?: number;
  consumers: number;
  consumers_paused: boolean;
  consumer_capacity: number | null;
  head_message_timestamp?: number | null;
  message_stats?: Stats;
  idle_since?: string;
  owner_pid_details?: { name: string };
  consumer_details?: Consumer[];
  incoming?: { exchange: { name: string; vhost: string }; stats: Stats }[];
}

export interface Consumer {
  consumer_tag: string;
  ack_required: boolean;
  active: boolean;
  activity_status: string;
  arguments: Table;
  exclusive: boolean;
  prefetch_count: number;
  queue: { name: string; vhost: string };
  channel_details: {
    name: string;
    connection_name: string;
    number: number;
    peer_host: string;
    peer_port: number;
    user: string;
  };
}

export interface Exchange {
  name: string;
  vhost: string;
  type: string;
  durable: boolean;
  auto_delete: boolean;
  internal: boolean;
  arguments: Table;
  policy?: string;
  message_stats?: Stats;
  incoming?: { channel_details: { name: string; connection_name: string }; stats: Stats }[];
  outgoing?: { queue?: { name: string }; exchange?: { name: string }; stats: Stats }[];
  user_who_performed_action?: string;
}

export interface Binding {
  source: string;
  vhost: string;
  destination: string;
  destination_type: "queue" | "exchange";
  routing_key: string;
  arguments: Table;
  properties_key: string;
}

export interface Connection {
  name: string;
  vhost: string;
  user: string;
  user_provided_name: string;
  node: string;
  protocol: string;
  type: string;
  state: string;
  ssl: boolean;
  channels: number;
  channel_max: number;
  frame_max: number;
  timeout: number;
  connected_at: number;
  client_properties: Table;
  auth_mechanism: string;
  peer_host: string;
  peer_port: number;
  host: string;
  port: number;
  send_pend: number;
  recv_oct: number;
  recv_oct_details?: Details;
  send_oct: number;
  send_oct_details?: Details;
}

export interface Channel {
  name: string;
  number: number;
  vhost: string;
  user: string;
  node: string;
  state: string;
  confirm: boolean;
  transactional: boolean;
  prefetch_count: number;
  global_prefetch_count: number;
  consumer_count: number;
  messages_unacknowledged: number;
  messages_unconfirmed: number;
  messages_uncommitted: number;
  acks_uncommitted: number;
  idle_since?: string;
  connection_details: { name: string; peer_host: string; peer_port: number };
  message_stats?: Stats;
  consumer_details?: Consumer[];
  publishes?: { exchange: { name: string; vhost: string }; stats: Stats }[];
  deliveries?: { queue: { name: string; vhost: string }; stats: Stats }[];
}

export interface Policy {
  vhost: string;
  name: string;
  pattern: string;
  "apply-to": string;
  definition: Table;
  priority: number;
}

export interface Message {
  position: number;
  payload_bytes: number;
  redelivered: boolean;
  exchange: string;
  routing_key: string;
  properties: Table & { headers?: Table };
  payload: string;
  payload_encoding: "string" | "base64";
}

/** A rate of the broker's. */
export function rateOf(stats: Stats | undefined, name: string): number {
  const details = stats?.[`${name}_details`];
  return typeof details === "object" ? details.rate : 0;
}

export function detailsOf(stats: Stats | undefined, name: string): Details | undefined {
  const details = stats?.[`${name}_details`];
  return typeof details === "object" ? details : undefined;
}
