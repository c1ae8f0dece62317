import { setFlagsFromString } from 'node:v8'

/**
 * Limits the young generation of threads that this process starts from now on to 2 MB. These threads are mostly idle, and an
 * idle thread never shrinks its young generation. Node's `resourceLimits` cannot do that, because V8 prefers the command-line
 * flag, which is meant for the main thread.
 */
export function limitThreadHeaps(): void {
  setFlagsFromString('--max-semi-space-size=2')
}
