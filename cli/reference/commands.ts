import type { Command, Option } from 'commander'

/** The reference of a program: a section for each of its commands, with the commands below it. */
export function commandReference(program: Command): string {
  return program.commands.map((command) => section(command, '###')).join('\n\n')
}

function section(command: Command, level: string): string {
  const below = leavesOf(command).filter((leaf) => leaf !== command)
  const shared = sharedOptions(below)
  return [
    `${level} ${nameOf(command)}`,
    command.description(),
    ...(hasAction(command) ? [entryOf(command, [])] : []),
    ...(shared.length === 0 ? [] : ['Most commands below take:', shared.map(optionLine).join('\n')]),
    ...below.map((leaf) =>
      `**\`${usageOf(leaf)}\`**: ${leaf.description()}\n\n${entryOf(leaf, shared)}`.trim(),
    ),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

/** Whether a command has an action of its own. `tollgate vault` has one, although it also has subcommands. */
const hasAction = (command: Command): boolean =>
  command.commands.length === 0 || command.registeredArguments.length > 0 || command.options.length > 1

const leavesOf = (command: Command): Command[] => [
  ...(hasAction(command) ? [command] : []),
  ...command.commands.flatMap(leavesOf),
]

/** Options that more than half of the commands have with the same text. */
function sharedOptions(commands: readonly Command[]): Option[] {
  if (commands.length < 3) return []
  const all = commands.flatMap(({ options }) => options)
  return all.filter((option, at) => {
    const same = all.filter((other) => optionLine(other) === optionLine(option))
    return same.length * 2 > commands.length && all.indexOf(same[0]!) === at
  })
}

function entryOf(command: Command, shared: readonly Option[]): string {
  const known = new Set(shared.map(optionLine))
  const options = command.options.map(optionLine).filter((line) => !known.has(line))
  const args = command.registeredArguments
    .filter(({ description }) => description !== '')
    .map((argument) => `- \`${argument.name()}\`: ${argument.description}`)
  return [...args, ...options].join('\n')
}

function optionLine({ flags, description, defaultValue, argChoices }: Option): string {
  const facts = [
    ...(argChoices === undefined ? [] : [`one of ${argChoices.join(', ')}`]),
    ...(defaultValue === undefined || (Array.isArray(defaultValue) && defaultValue.length === 0)
      ? []
      : [`default: ${String(defaultValue)}`]),
  ]
  return `- \`${flags}\`: ${description}${facts.length === 0 ? '' : ` (${facts.join('; ')})`}`
}

function nameOf(command: Command): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`
}

const usageOf = (command: Command): string =>
  [
    nameOf(command),
    ...command.registeredArguments.map((argument) =>
      argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
    ),
  ].join(' ')
