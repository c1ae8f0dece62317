import { setFlagsFromString } from 'node:v8'

/**
 * Gives the threads that this process starts from now on a young generation of 2 MB at most. They stand idle for most of
 * the time, and a thread that does nothing never shrinks it. `resourceLimits` would say so for each of them, but V8 takes the
 * flag of the command line, which is for the main thread, in its place.
 */
export function limitThreadHeaps(): void {
  setFlagsFromString('--max-semi-space-size=2')
}
