// Dialogs on the native element: it keeps the focus inside and gives it back.
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Problem } from "./basics";
import { Icon } from "./icons";

export function Dialog({
  title,
  onClose,
  children,
  wide = false,
}: {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    // The first field has the focus, not the button that closes.
    element?.querySelector<HTMLElement>(".body :is(input, select, textarea)")?.focus();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={wide ? "wide" : undefined}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div className="dialog">
        <header>
          <h2 id={id}>{title}</h2>
          <button type="button" className="button quiet icon" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** A change that cannot be undone: says what it does, in numbers, and asks for the name. */
export function ConfirmDialog({
  title,
  name,
  verb,
  children,
  onConfirm,
  onClose,
}: {
  title: string;
  name: string;
  verb: string;
  children: ReactNode;
  onConfirm: (typed: string) => Promise<void>;
  onClose: () => void;
}) {
  const [typed, setTyped] = useState("");
  const action = useAction(() => onConfirm(typed));
  const id = useId();
  async function submit(event: FormEvent) {
    event.preventDefault();
    if (await action.run()) onClose();
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} className="body">
        <div className="stack">{children}</div>
        <div className="field">
          <label htmlFor={id}>
            Type <code>{name}</code> to go on
          </label>
          <input
            id={id}
            className="input mono"
            autoComplete="off"
            spellCheck={false}
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
        </div>
        {action.error !== null && <Problem error={action.error} />}
        <div className="row">
          <button
            type="submit"
            className="button danger primary push"
            disabled={typed !== name || action.busy}
          >
            {verb}
          </button>
          <button type="button" className="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A change on its way: whether it runs, and what went wrong. */
export function useAction(work: () => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  async function run(): Promise<boolean> {
    setBusy(true);
    setError(null);
    try {
      await work();
      return true;
    } catch (problem) {
      setError(problem instanceof Error ? problem : new Error(String(problem)));
      return false;
    } finally {
      setBusy(false);
    }
  }
  return { busy, error, run, clear: () => setError(null) };
}
