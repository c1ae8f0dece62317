import type { Command } from 'commander'
import { wrap } from './displayWidth.ts'
import { columnsOf } from './stream.ts'

/** Lines of prose are not longer than this, however wide the terminal is. */
const MOST_COLUMNS = 100
/** Shorter than this, a line ends where its author ended it. */
const LEAST_BROKEN = 60

/**
 * Lays a text of help out for so many columns. Paragraphs that were broken for another width are broken anew; of a line such as
 * `  0  paid, and the answer is complete` what goes on stands below its second part. Commands stay on their line: they are copied.
 */
export function layOutHelp(text: string, columns: number): string {
  const laid: string[] = []
  let paragraph: string[] = []
  const endParagraph = () => {
    if (paragraph.length > 0) laid.push(...wrap(paragraph.join(' '), Math.min(columns, MOST_COLUMNS)))
    paragraph = []
  }
  for (const line of text.split('\n')) {
    const isProse = /^\S/.test(line)
    const goesOn = (paragraph.at(-1)?.length ?? 0) >= LEAST_BROKEN
    if (!isProse || !goesOn) endParagraph()
    if (isProse) paragraph.push(line)
    else laid.push(...layOutItem(line, columns))
  }
  endParagraph()
  return laid.join('\n')
}

/** Has a command and all below it show their help in the columns of the terminal; call it before they are added. */
export function useHelpLayout(program: Command): void {
  program
    .configureHelp({
      // `[options]` after each of them says nothing, and takes the room of what they do.
      subcommandTerm: (command) =>
        [
          [command.name(), ...command.aliases()].join('|'),
          ...command.registeredArguments.map((one) => (one.required ? `<${one.name()}>` : `[${one.name()}]`)),
        ].join(' '),
    })
    .configureOutput({
      writeOut: (text) => process.stdout.write(layOutHelp(text, columnsOf(process.stdout))),
    })
}

function layOutItem(line: string, columns: number): string[] {
  const item = /^( +\S+ {2,})(\S.*)$/.exec(line)
  if (item === null || line.length <= columns) return [line]
  const [, term = '', words = ''] = item
  return wrap(words, Math.max(20, columns - term.length)).map((text, i) =>
    i === 0 ? term + text : ' '.repeat(term.length) + text,
  )
}
