// A button with a menu below it.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icon";

export interface Item {
  text: string;
  icon?: IconName;
  bad?: boolean;
  act: () => void;
  checked?: boolean;
}

export function Menu(props: {
  label: string;
  items: Item[];
  children?: ComponentChildren;
  class?: string;
  left?: boolean;
  stays?: boolean;
}): JSX.Element | null {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = (back = true) => {
    setOpen(false);
    if (back) button.current?.focus();
  };
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role^=menuitem]")?.focus();
    const outside = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("mousedown", outside);
    return () => removeEventListener("mousedown", outside);
  }, [open]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (!open) return;
    const all = [...(box.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      event.stopPropagation();
      all[(at + (event.key === "ArrowDown" ? 1 : all.length - 1)) % all.length]?.focus();
    } else if (event.key === "Tab") setOpen(false);
  };
  if (!props.items.length) return null;
  return (
    <div class="has-menu" ref={box} onKeyDown={onKeyDown}>
      <button
        ref={button}
        type="button"
        class={props.class ?? "btn icon"}
        aria-label={props.children ? undefined : props.label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {props.children ?? <Icon name="more" />}
      </button>
      {open && (
        <ul class={props.left ? "menu left" : "menu"} role="menu" aria-label={props.label}>
          {props.items.map((item) => (
            <li key={item.text} role="none">
              <button
                type="button"
                role={item.checked === undefined ? "menuitem" : "menuitemcheckbox"}
                aria-checked={item.checked}
                tabIndex={-1}
                class={item.bad ? "bad" : ""}
                onClick={() => {
                  if (!props.stays) close();
                  item.act();
                }}
              >
                {item.checked === undefined ? (
                  item.icon && <Icon name={item.icon} />
                ) : (
                  <span class="tick">{item.checked && <Icon name="check" />}</span>
                )}
                <span class="cut">{item.text}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
