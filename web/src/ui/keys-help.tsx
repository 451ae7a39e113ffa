import type { JSX } from "preact";
import { setSingleKeys, singleKeys } from "../lib/keys";
import { Check } from "./basic";
import { closeDialog, Dialog } from "./dialog";

const KEYS: [string[], string][] = [
  [["Ctrl K"], "Find or do"],
  [["/"], "Filter"],
  [
    ["G", "then O Q E T D N P C L"],
    "Overview, queues, exchanges, topology, dead letters, nodes, policies, connections, log",
  ],
  [["J", "K"], "Next, previous row or message"],
  [["X", "Shift X"], "Select, select to here"],
  [["Enter"], "Open"],
  [["P"], "Peek"],
  [["N"], "New"],
  [["Ctrl Enter"], "Save, send"],
  [["Esc"], "Close, clear the selection, leave a field"],
  [["."], "Pause, go on live"],
  [["1", "… 5"], "Time range"],
  [["[", "]"], "Tab to the left, to the right"],
];

export function KeysHelp(): JSX.Element {
  return (
    <Dialog
      title="Keys"
      footer={
        <button type="button" class="btn primary" onClick={closeDialog}>
          Close
        </button>
      }
    >
      <dl class="kv tight keys">
        {KEYS.map(([keys, what]) => (
          <>
            <dt>
              {keys.map((key) => (
                <span key={key} class="kbd">
                  {key}
                </span>
              ))}
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <Check label="Keys without a modifier" checked={singleKeys.value} onChange={setSingleKeys} />
    </Dialog>
  );
}
