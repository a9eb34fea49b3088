// Parts whose code is loaded when they are shown for the first time.
// React's lazy would need Suspense, and that shows what has arrived only 300 ms after it last showed
// a placeholder: two of them, one inside the other, made every first page wait.
import { type ComponentType, type ReactNode, useEffect, useState } from "react";

type Module<Props> = { default: ComponentType<Props> };

/** `waiting`: what is shown until the code is there. */
export function late<Props extends object>(
  load: () => Promise<Module<Props>>,
  waiting: ReactNode = null,
): ComponentType<Props> {
  let Loaded: ComponentType<Props> | undefined;
  return function Late(props: Props) {
    const [state, setState] = useState<"waiting" | "there" | "failed">(
      Loaded === undefined ? "waiting" : "there",
    );
    useEffect(() => {
      if (Loaded !== undefined) return setState("there");
      let wanted = true;
      load().then(
        (module) => {
          Loaded = module.default;
          if (wanted) setState("there");
        },
        () => wanted && setState("failed"),
      );
      return () => {
        wanted = false;
      };
    }, []);
    if (Loaded !== undefined) return <Loaded {...props} />;
    if (state !== "failed") return waiting;
    return (
      <p className="alone" role="alert">
        This part of the console could not be loaded. Reload the page: the console may have been
        updated.
      </p>
    );
  };
}
