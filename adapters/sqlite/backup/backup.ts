import { closeSync, existsSync, linkSync, openSync, rmSync } from 'node:fs'
import { dirname, extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { flush } from '../../flush.ts'

/**
 * Writes a consistent copy of the database to `toFile`, on a thread of its own and some pages at a time, while others read and
 * write. The copy gets its name only when it is whole and on disk; killed before, it leaves `<toFile>.<pid>.unfinished`.
 *
 * @throws when `toFile` exists, because a backup never replaces another, or its folder does not.
 */
export async function backupTo(path: string, toFile: string): Promise<void> {
  if (existsSync(toFile)) throw new Error(`Expected a new file for the backup, but ${toFile} exists.`)
  const folder = dirname(toFile)
  if (!existsSync(folder))
    throw new Error(`Expected a folder for the backup at ${folder}, found none. Make it first.`)
  const unfinished = `${toFile}.${process.pid}.unfinished`
  rmSync(unfinished, { force: true })
  // Made here, empty and private: SQLite would give it the modes of the process's umask.
  closeSync(openSync(unfinished, 'wx', 0o600))
  try {
    await copy(path, unfinished)
    flush(unfinished)
    // A link and not a rename, which would replace a file that came meanwhile.
    linkSync(unfinished, toFile)
  } finally {
    for (const file of [unfinished, `${unfinished}-journal`]) rmSync(file, { force: true })
  }
  flush(folder)
}

async function copy(path: string, toFile: string): Promise<void> {
  const program = new URL(`./backup.worker${extname(import.meta.url)}`, import.meta.url)
  const worker = new Worker(program, { workerData: { path, toFile }, execArgv: [] })
  await new Promise<void>((resolve, reject) => {
    worker.once('error', reject)
    worker.once('exit', (code) => {
      if (code === 0) resolve()
      else reject(new Error(`The thread that copies the database ended with ${code}.`))
    })
  })
}
