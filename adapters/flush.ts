import { closeSync, fsyncSync, openSync } from 'node:fs'

/** Waits until a file, or a folder's entries, are on disk and survive a power failure. */
export function flush(path: string): void {
  const opened = openSync(path, 'r')
  try {
    fsyncSync(opened)
  } finally {
    closeSync(opened)
  }
}
