import { watch } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'

const SETTLE_MS = 200

/**
 * Calls back when the configuration is to be read again: on SIGHUP, and when its file changes. The folder is watched, not
 * the file, because editors replace a file instead of writing into it.
 *
 * @returns a function that stops it
 */
export function watchConfig(file: string, changed: (why: 'signal' | 'file') => void): () => void {
  const path = resolve(file)
  let timer: NodeJS.Timeout | undefined
  const onFile = (_event: string, name: string | null) => {
    if (name !== null && name !== basename(path)) return
    clearTimeout(timer)
    timer = setTimeout(changed, SETTLE_MS, 'file')
  }
  const watcher = watch(dirname(path), { persistent: false }, onFile)
  // A folder that can't be watched (some network drives) still leaves the signal.
  watcher.on('error', () => watcher.close())
  const onSignal = () => changed('signal')
  process.on('SIGHUP', onSignal)
  return () => {
    clearTimeout(timer)
    watcher.close()
    process.off('SIGHUP', onSignal)
  }
}
