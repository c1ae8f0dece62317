import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { UsageError } from '../output/exitCodes.ts'

export interface Terminal {
  readonly stdin: NodeJS.ReadableStream
  readonly stderr: NodeJS.WritableStream
}

/** Asks for a line on the terminal and shows nothing of it. @throws {UsageError} when it was left by Ctrl-C or Ctrl-D */
export function askSecret(question: string, { stdin, stderr }: Terminal = process): Promise<string> {
  // The reader would repeat what is typed; it goes nowhere.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: nowhere, terminal: true, historySize: 0 })
  stderr.write(question)
  return new Promise((resolve, reject) => {
    lines.once('line', (line) => {
      resolve(line)
      lines.close()
    })
    lines.once('SIGINT', () => lines.close())
    lines.once('close', () => {
      stderr.write('\n')
      reject(new UsageError('Stopped before a password was given.'))
    })
  })
}
