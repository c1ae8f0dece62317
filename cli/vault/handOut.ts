import { rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'

/** A secret that leaves the vault, and what is told of it. */
export interface Secret {
  readonly secret: string
  readonly shown: object
  /** Its field in JSON. */
  readonly name: string
  /** What whoever has it can do. */
  readonly warning: string
}

/** Takes the place for the secret before it is asked for: one that can't be written is not handed out. */
export async function handOut(to: string, output: Output, ask: () => Promise<Secret>): Promise<void> {
  const file = to === '-' ? undefined : resolve(to)
  if (file !== undefined) makePrivateFile(file)
  try {
    const { secret, shown, name, warning } = await ask()
    output.warn(warning)
    if (file === undefined) return output.result({ ...shown, [name]: secret }, secret)
    writeFileSync(file, `${secret}\n`)
    output.result({ ...shown, file }, `Written to ${file}.`)
  } catch (error) {
    if (file !== undefined) rmSync(file, { force: true })
    throw error
  }
}

function makePrivateFile(file: string): void {
  try {
    writeFileSync(file, '', { flag: 'wx', mode: 0o600 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new UsageError(
      code === 'EEXIST'
        ? `There is a file ${file} already. Choose another name.`
        : `Can't write ${file}: ${code}.`,
    )
  }
}
