import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'

interface InitFlags {
  readonly json?: true
  readonly config: string
  readonly preset: string
  readonly store?: string
  readonly base?: string
  readonly solana?: string
  readonly force?: true
}

export function registerInit(program: Command): void {
  program
    .command('init')
    .description('Write a commented configuration file, and optionally create a first store.')
    .option('-c, --config <file>', 'file to write', 'tollgate.yaml')
    .option(
      '-p, --preset <name>',
      'kind of configuration: default, local, remote-facilitator, base-mainnet, solana-mainnet or fleet',
      'default',
    )
    .option('--store <name>', 'also create a store with this username and print its API key')
    .option('--base <address>', "the store's payout wallet on Base")
    .option('--solana <address>', "the store's payout wallet on Solana")
    .option('--force', 'overwrite an existing file')
    .option(...jsonOption)
    .addHelpText(
      'after',
      `
Examples:
  tollgate init
  tollgate init --store demo --base 0xYourWallet
  tollgate init --preset base-mainnet`,
    )
    .action(async (flags: InitFlags) => {
      const output = outputOf(flags)
      try {
        // All flags are checked before a file is written. Otherwise the corrected command would fail because the file exists.
        const opened = flags.store === undefined ? undefined : await import('../runtime/createStore.ts')
        const newStore = { ...flags, username: flags.store ?? '' }
        opened?.payoutOf(newStore)
        const text = readPreset(flags.preset)
        const missing = missingVariables(text, process.env)
        if (opened !== undefined && missing.length > 0)
          throw new UsageError(
            `The preset ${flags.preset} needs ${missing.join(', ')} in the environment. ` +
              'Set the variable first, or omit --store and create the store later with tollgate store create.',
          )
        await writeConfig(flags, text)
        output.result({ written: flags.config, preset: flags.preset, missing }, `Wrote ${flags.config}.`)
        if (opened === undefined) return output.say(nextSteps(missing))
        const created = await opened.createStore(flags.config, process.env, newStore)
        output.result(created, storeText(created))
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

/** The output about a new store. The store's API key is shown only here. */
export function storeText({
  username,
  apiKey,
  storeUrl,
}: {
  username: string
  apiKey: string
  storeUrl: string
}): string {
  return [
    `Created the store ${username}: ${storeUrl}`,
    '',
    `  export TOLLGATE_API_KEY=${apiKey}`,
    '',
    'This key is shown once. Next: tollgate start, then tollgate link add URL --price 0.01',
  ].join('\n')
}

/**
 * The next steps after a configuration was written.
 * @param missing environment variables that the configuration needs and that are not set
 */
const nextSteps = (missing: readonly string[]): string =>
  missing.length === 0
    ? 'Next: tollgate start'
    : [
        'Secrets come from the environment. Set:',
        '',
        ...missing.map((name) => `  export ${name}=…`),
        '',
        'Next: tollgate check, then tollgate start',
      ].join('\n')

/**
 * The environment variables that a configuration uses without a default and that are not set. Variables in comments do not
 * count.
 */
function missingVariables(text: string, env: Readonly<Record<string, string | undefined>>): string[] {
  const uncommented = text.replaceAll(/(^|\s)#.*$/gm, '')
  const names = [...uncommented.matchAll(/(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g)].map(([, name]) => name!)
  return [...new Set(names)].filter((name) => (env[name] ?? '') === '')
}

async function writeConfig({ config, force }: InitFlags, text: string): Promise<void> {
  if (existsSync(config) && !force) {
    throw new UsageError(
      `${config} already exists. Choose another name with --config, or overwrite the file with --force.`,
    )
  }
  await writeFile(config, text, { mode: 0o600 })
}

function readPreset(name: string): string {
  if (!/^[a-z-]{1,40}$/.test(name)) throw unknownPreset(name)
  const folder = existsSync(new URL('../../config/default.yaml', import.meta.url))
    ? '../../config/'
    : '../../../config/'
  const file = new URL(`${folder}${name === 'default' ? 'default' : `presets/${name}`}.yaml`, import.meta.url)
  if (!existsSync(file)) throw unknownPreset(name)
  const schema = new URL(`${folder}tollgate.schema.json`, import.meta.url)
  return readFileSync(file, 'utf8').replace(/\$schema=\S+/, `$schema=${schema.href}`)
}

const unknownPreset = (name: string) =>
  new UsageError(
    `Expected a preset (default, local, remote-facilitator, base-mainnet, solana-mainnet, fleet), got ${JSON.stringify(name)}.`,
  )
