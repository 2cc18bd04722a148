import { Socket } from 'node:net';

/** How many connections this process has open to a server. */
export function openSockets(url: string): number {
  const port = Number(new URL(url).port);
  const handles = (process as unknown as { _getActiveHandles(): unknown[] })._getActiveHandles();
  return handles.filter((handle) => handle instanceof Socket && handle.remotePort === port).length;
}
