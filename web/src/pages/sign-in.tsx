import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { inWords, Refused } from "../lib/api";
import { signIn } from "../lib/session";
import { Field, Input } from "../ui/basic";
import { Icon, Logo } from "../ui/icon";

const SAID: Record<string, string> = {
  not_authorized: "Wrong username or password.",
  Not_Authorized: "Wrong username or password.",
  "Not management user":
    "This user may not use the page: it has none of the tags management, policymaker, monitoring, administrator.",
  "User can only log in via localhost": "This user may sign in from the broker's own machine only.",
};

/** `again`: somebody was signed in, and is asked once more where they were. */
export function SignIn({ again }: { again: boolean }): JSX.Element {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [shown, setShown] = useState(false);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Leveret";
  }, []);
  const submit = async () => {
    setBusy(true);
    setError("");
    try {
      await signIn(name, password);
    } catch (caught) {
      setError(caught instanceof Refused ? (SAID[caught.reason] ?? caught.reason) : inWords(caught));
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="gate" id="main">
      <div class="logo">
        <Logo />
        <div>
          <h1>Sign in to Leveret</h1>
          {again && <p class="muted">You have been signed out. What you typed is kept.</p>}
        </div>
      </div>
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Input label="Username" value={name} onInput={setName} autocomplete="username" focus />
        <Field label="Password" error={error || undefined}>
          {(id) => (
            <div class="with-icon plain">
              <input
                id={id}
                class={`input ${error ? "wrong" : ""}`}
                type={shown ? "text" : "password"}
                value={password}
                autocomplete="current-password"
                onInput={(event) => setPassword(event.currentTarget.value)}
              />
              <span class="end">
                <button
                  type="button"
                  class="btn quiet s icon"
                  aria-label={shown ? "Hide the password" : "Show the password"}
                  onClick={() => setShown(!shown)}
                >
                  <Icon name="eye" />
                </button>
              </span>
            </div>
          )}
        </Field>
        <button type="submit" class="btn primary wide" disabled={busy}>
          Sign in <span class="kbd">↵</span>
        </button>
      </form>
      <footer>{location.host}</footer>
    </main>
  );
}
