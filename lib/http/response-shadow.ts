import { ServerResponse } from 'node:http';

/** Puts a value before a property, own or inherited. @returns what takes it away again. */
export function shadow(target: object, name: string, value: unknown): () => void {
  const own = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { value, configurable: true, enumerable: false, writable: true });
  return () => {
    if (own === undefined) Reflect.deleteProperty(target, name);
    else Object.defineProperty(target, name, own);
  };
}

/** Ignores what is assigned to a property while `isRefused` says so. */
export function guardProperty(target: object, name: string, isRefused: () => boolean): void {
  let current: unknown = Reflect.get(target, name);
  Object.defineProperty(target, name, {
    configurable: true,
    enumerable: true,
    get: () => current,
    set: (value: unknown) => {
      if (!isRefused()) current = value;
    },
  });
}

type Methods = ReadonlyMap<string, unknown>;

/** The methods of a response that some layer has replaced with its own. */
export function snapshotMethods(res: ServerResponse): Methods {
  return new Map(replacedMethods(res).map((name) => [name, Reflect.get(res, name)]));
}

/** Takes away what layers have replaced since the snapshot. */
export function restoreMethods(res: ServerResponse, snapshot: Methods): void {
  for (const name of replacedMethods(res)) {
    if (snapshot.has(name)) Reflect.set(res, name, snapshot.get(name));
    else Reflect.deleteProperty(res, name);
  }
}

// Only methods that Node's response has: what an application hangs on `res` for itself stays.
function replacedMethods(res: ServerResponse): string[] {
  return Object.keys(res).filter(
    (name) => name in ServerResponse.prototype && typeof Reflect.get(res, name) === 'function',
  );
}
