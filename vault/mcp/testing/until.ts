import { setTimeout as pause } from 'node:timers/promises'

/** Looks again and again until it is so; a test that waits for what never comes ends by the runner's own limit. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await pause(5)
}
