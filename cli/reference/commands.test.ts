import type { Command } from 'commander'
import t from 'tap'
import { createPipeline } from '../program.ts'
import { commandReference } from './commands.ts'

t.test('every command, argument and option is in the reference', async (t) => {
  const program = createPipeline()
  const reference = commandReference(program)
  const visit = (command: Command, path: string) => {
    t.match(reference, path)
    for (const { flags } of command.options) t.match(reference, `- \`${flags}\`: `, `${path} ${flags}`)
    for (const below of command.commands) visit(below, `${path} ${below.name()}`)
  }
  for (const command of program.commands) visit(command, `tollgate ${command.name()}`)
})

t.test('options that most commands of a group share are listed once', async (t) => {
  const [, vault = ''] = commandReference(createPipeline()).split('### tollgate vault\n')
  const [group = ''] = vault.split('\n### ')
  t.equal(
    group.match(/- `--socket <path>`/g)?.length,
    2,
    'of tollgate vault itself, and of the commands below',
  )
})
