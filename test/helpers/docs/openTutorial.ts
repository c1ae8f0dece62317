import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { freePort } from '../freePort.ts'

const root = resolve(import.meta.dirname, '../../..')

/** How long a step of a tutorial may take on a busy machine, in ms. */
const STEP_MS = 120_000

export interface Tutorial {
  /** Where it is done: stands for the folder of the clone. */
  readonly folder: string
  /**
   * Copies each block of `sh` below a `##` heading into a terminal, as its reader does, and checks that every `text` block is what
   * the reader sees then. A block whose last line says `# leave it running` or `# it waits for you` keeps its terminal.
   */
  copy(heading: string): Promise<void>
  /** Types a line that the tutorial tells its reader to find, in the terminal of the last block. */
  type(line: string): Promise<void>
  /** A text as the tutorial has it, with the ports of this run. */
  here(text: string): string
  /** What all terminals have shown. */
  shown(): string
  /** Headings with blocks that were not copied. */
  left(): readonly string[]
}

/** @param ports that the tutorial names; each becomes a free one, so that tests run beside each other */
export async function openTutorial(t: Test, file: string, ports: readonly number[] = []): Promise<Tutorial> {
  const folder = mkdtempSync(join(root, 'try-'))
  const home = mkdtempSync(join(folder, '.home-'))
  const chosen = new Map<number, number>()
  for (const port of ports) chosen.set(port, await freePort())
  const here = (text: string) =>
    [...chosen].reduce((result, [from, to]) => result.replaceAll(String(from), String(to)), text)
  writeStubs(join(home, 'bin'), await freePort())

  const terminals: Terminal[] = []
  const open = () => {
    const terminal = openTerminal(folder, { HOME: home, PATH: `${home}/bin:${process.env['PATH']}` })
    terminals.push(terminal)
    return terminal
  }
  t.teardown(async () => {
    await Promise.all(terminals.map(({ close }) => close()))
    rmSync(folder, { recursive: true, force: true })
  })
  const shown = () => terminals.map(({ shown }) => shown()).join('\n')

  const waiting = new Map(sectionsOf(readFileSync(join(root, file), 'utf8')))
  let [terminal, isTaken] = [open(), false]
  return {
    folder,
    here,
    shown,
    left: () => [...waiting.keys()],
    type: (line) => terminal.run(`${line}\n`, false),
    async copy(heading) {
      const blocks = waiting.get(heading)
      if (blocks === undefined)
        throw new Error(`Expected a section "${heading}" that has blocks, in ${file}.`)
      waiting.delete(heading)
      for (const { language, text } of blocks) {
        if (language === 'text') {
          for (const line of here(text).trimEnd().split('\n')) await seen(line)
          continue
        }
        if (isTaken) terminal = open()
        isTaken = /# (leave it running|it waits for you)$/.test(text.trimEnd())
        await terminal.run(here(text), isTaken)
      }
    },
  }

  /** Waits until a line has been shown, however it is spaced: a pipe gets JSON without the spaces that a terminal gets. */
  async function seen(line: string): Promise<void> {
    const end = Date.now() + STEP_MS
    const plain = (text: string) => text.replace(/\s/g, '').toLowerCase()
    while (!plain(shown()).includes(plain(line))) {
      if (Date.now() > end) throw new Error(`${file} shows "${line}", but the terminals showed:\n${shown()}`)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

interface Block {
  readonly language: string
  readonly text: string
}

const sectionsOf = (tutorial: string): [string, Block[]][] =>
  tutorial
    .split(/^## /m)
    .slice(1)
    .map((section): [string, Block[]] => [
      section.slice(0, section.indexOf('\n')),
      [...section.matchAll(/^```(sh|text)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({
        language: language!,
        text: text!,
      })),
    ])
    .filter(([, blocks]) => blocks.length > 0)

/** `npx` and `npm` of this checkout, without the second and a half that they take to start; what is installed stays as it is. */
function writeStubs(folder: string, demoPort: number): void {
  mkdirSync(folder)
  const stubs = {
    npx: `case "$1" in
  tollgate) shift; exec '${process.execPath}' '${join(root, 'cli/bin.js')}' "$@" ;;
  node) shift; exec '${process.execPath}' "$@" ;;
esac`,
    npm: `case "$*" in
  install) exit 0 ;;
  'run demo') exec '${process.execPath}' '${join(root, 'cli/bin.js')}' demo --write-env demo.env --port ${demoPort} ;;
esac`,
  }
  for (const [name, script] of Object.entries(stubs)) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\necho "unexpected: ${name} $*" >&2; exit 1\n`)
    chmodSync(join(folder, name), 0o755)
  }
}

interface Terminal {
  /** Resolves when the lines have run, or at once when they keep the terminal. Rejects when one of them fails. */
  run(lines: string, keepsTerminal: boolean): Promise<void>
  shown(): string
  close(): Promise<void>
}

function openTerminal(cwd: string, env: Record<string, string>): Terminal {
  // A group of its own, so that what it left running ends with it.
  const shell: ChildProcess = spawn('sh', ['-e'], {
    cwd,
    env,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [shell.stdout!, shell.stderr!])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const ended = once(shell, 'exit')
  let runs = 0
  return {
    shown: () => output,
    async run(lines, keepsTerminal) {
      const mark = `-- ${++runs} done --`
      shell.stdin!.write(`{\n${lines}} </dev/null\necho '${mark}'\n`)
      if (keepsTerminal) return
      while (!output.includes(mark)) {
        if (shell.exitCode !== null) throw new Error(`A line failed:\n${lines}\n${output}`)
        await Promise.race([once(shell.stdout!, 'data'), ended])
      }
    },
    async close() {
      try {
        process.kill(-shell.pid!, 'SIGTERM')
        // Until the last program of the group has ended: each of them still writes into the folder.
        for (;;) {
          await new Promise((resolve) => setTimeout(resolve, 50))
          process.kill(-shell.pid!, 0)
        }
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
      }
    },
  }
}
