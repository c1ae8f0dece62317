import type { Command, Option } from 'commander'
import t from 'tap'
import { createPipeline } from './program.ts'

/** Every command below this one, with its full name. */
function* below(command: Command, words: readonly string[] = []): Generator<readonly string[]> {
  for (const child of command.commands) {
    yield [...words, child.name()]
    yield* below(child, [...words, child.name()])
  }
}

const find = (program: Command, words: readonly string[]): Command =>
  words.reduce((at, word) => at.commands.find((child) => child.name() === word)!, program)

/** An argument that the option accepts, as written after the command's name. */
const written = (option: Option): string[] => {
  const flag = option.long ?? option.short!
  if (!option.required && !option.optional) return [flag]
  return [flag, option.argChoices?.[0] ?? '7']
}

t.test(
  'an option after a command is that command’s, whatever the commands around it are called with',
  async (t) => {
    let count = 0
    for (const words of below(createPipeline())) {
      for (const { long } of find(createPipeline(), words).options) {
        const program = createPipeline()
        const command = find(program, words)
        const option = command.options.find((one) => one.long === long)!
        let reached = false
        command.exitOverride().action(() => {
          reached = true
        })
        const needed = command.options.filter((one) => one.mandatory && one !== option).flatMap(written)
        const operands = command.registeredArguments.filter((one) => one.required).map(() => '7')
        await program.parseAsync([...words, ...operands, ...needed, ...written(option)], { from: 'user' })
        const line = `${words.join(' ')} ${option.flags}`
        count++
        if (!reached || command.getOptionValueSource(option.attributeName()) !== 'cli') t.fail(line)
      }
    }
    t.ok(count > 100, `${count} options were written`)
  },
)

t.test(
  'no help is wider than 80 columns where the terminal does not say more, but for lines to copy',
  async (t) => {
    for (const words of [[], ...below(createPipeline())]) {
      const command = find(createPipeline(), words)
      let shown = ''
      const { writeOut } = command.configureOutput()
      t.ok(writeOut, 'the layout is there')
      const { write } = process.stdout
      process.stdout.write = ((text: string) => {
        shown += text
        return true
      }) as typeof write
      try {
        command.outputHelp()
      } finally {
        process.stdout.write = write
      }
      const isToCopy = (line: string) => /^ {2,}(tollgate |npx |- |[{"])/.test(line)
      const wide = shown.split('\n').filter((line) => line.length > 80 && !isToCopy(line))
      t.strictSame(wide, [], words.join(' '))
      t.match(shown, /Usage: tollgate/)
    }
  },
)

t.test('every command that prints results takes --json', async (t) => {
  const program = createPipeline()
  const without = [...below(program)]
    .filter((words) => find(program, words).commands.length === 0)
    .filter((words) => find(program, words).options.every(({ long }) => long !== '--json'))
  // They run until stopped, and write their log.
  t.strictSame(
    without.map((words) => words.join(' ')),
    ['start', 'vault mcp', 'relay'],
  )
})
