import { setTimeout as pause } from 'node:timers/promises'

/** Polls until the condition holds; a test that waits for what never happens ends by the runner's own limit. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await pause(5)
}
