import type { Command } from 'commander'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import type { Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { registerAgents } from '../vault/agentCommands.ts'
import { registerApprovals } from '../vault/approvalCommands.ts'
import { registerCustody } from '../vault/custodyCommands.ts'
import {
  type CommonFlags,
  neededPassword,
  ownerSocket,
  passwordOf,
  told,
  vaultHome,
  withCommonFlags,
} from '../vault/flags.ts'
import { registerKeys } from '../vault/keyCommands.ts'
import { registerMcp } from '../vault/mcpCommand.ts'
import { registerPairings } from '../vault/pairingCommands.ts'
import { readSecretFile } from '../vault/readSecretFile.ts'
import { registerPolicies } from '../vault/ruleCommands.ts'
import { type ServeFlags, serveSettings } from '../vault/serveSettings.ts'
import { registerOpen, registerState } from '../vault/stateCommands.ts'
import { registerValues } from '../vault/valueCommands.ts'

interface RunFlags extends CommonFlags, ServeFlags {
  readonly mode: string
  readonly agent?: string
  readonly insecureNoToken?: boolean
}

interface InitFlags extends CommonFlags {
  readonly mnemonicFile?: string
}

/** `tollgate vault`: keeps keys and secrets on this machine and signs what its owner allows. */
export function registerVault(program: Command): void {
  const vault = withCommonFlags(program.command('vault'))
    .description("Keep an agent's keys and secrets on this machine, and sign what you allow.")
    .option('--mode <mode>', 'http; http-mcp, with MCP at /mcp; or stdio, MCP for one agent', 'http')
    .option('--agent <name>', 'with --mode stdio: which agent that is; default: the only one there is')
    .option('--config <file>', 'settings and plugins (default: vault.yaml in that folder); flags win')
    .option('--host <address>', 'loopback address to listen on (default: 127.0.0.1)')
    .option('--port <n>', 'port for agents; 0 for any free one (default: 8420)')
    .option(
      '--local-agent <name>',
      'serve programs of this machine without a token on a second port, as that agent',
    )
    .option('--local-port <n>', 'that port (default: 8421)')
    .option('--require-token', 'open that port, and ask its callers for an agent’s token, too')
    .option('--testnets', 'offer Base Sepolia and Solana Devnet, too')
    .option('--relay <url>', 'let paired agents of other machines in through this relay')
    .option('--relay-ca <file>', "PEM of the relay's certificate authority")
    .option('--solana-rpc <url>', 'node for payments on Solana (default: the public one)')
    .option('--idle-minutes <n>', 'lock after this time without use (default: 15)')
    .option('--max-hours <n>', 'lock after this time in any case (default: 12)')
    .option('--insecure-no-token', 'for test suites: take requests without a token')
    .addHelpText(
      'after',
      `
First steps:
  tollgate vault init --password-file pw            make a vault
  tollgate vault --password-file pw                 run it for the agents of this machine
  tollgate vault agents add NAME --scopes LIST      let an agent in
  tollgate vault open                               decide in a browser what waits for you
The other commands speak to the running vault. When none runs, they open its folder with the password.`,
    )
    // It has an action of its own, so a misspelt subcommand would count as an operand too many.
    .allowExcessArguments()
    .helpCommand(true)
    .action((flags: RunFlags, { args }: Command) => {
      if (args.length > 0) refuseUnknown(vault, args[0]!)
      return flags.mode === 'stdio'
        ? told(flags, (output) => runForOne(flags, output), process.stderr)
        : told(flags, (output) => run(flags, output))
    })

  // What stands before a subcommand's name counts for it, too: never the wrong vault because of a flag's place.
  vault.enablePositionalOptions().hook('preAction', (_vault, action) => {
    for (const name of ['home', 'socket', 'passwordFile', 'json']) {
      const given = vault.getOptionValue(name)
      if (action.getOptionValue(name) === undefined && given !== undefined) action.setOptionValue(name, given)
    }
  })

  withCommonFlags(vault.command('init'))
    .description('Make a vault in an empty folder and print its recovery words, once.')
    .option('--mnemonic-file <file>', 'bring your own recovery words (BIP-39); - for standard input')
    .action((flags: InitFlags) =>
      told(flags, async (output) => {
        const { initVault } = await import('../vault/initVault.ts')
        const password = await neededPassword(flags, output, 'new')
        const mnemonic =
          flags.mnemonicFile === undefined
            ? undefined
            : readSecretFile(flags.mnemonicFile, (text) => output.warn(text))
        const made = await initVault({ home: vaultHome(flags.home, process.env), password, mnemonic })
        const words =
          made.mnemonic === undefined
            ? []
            : ['Write these words down; they are not shown again:', made.mnemonic]
        output.result(
          made,
          [
            `The vault is in ${made.home}.`,
            `EVM ${made.addresses.evm}`,
            `Solana ${made.addresses.solana}`,
            `On test chains: EVM ${made.test_addresses.evm}, Solana ${made.test_addresses.solana}`,
            ...words,
          ].join('\n'),
        )
      }),
    )

  registerAgents(vault)
  registerOpen(vault)
  registerMcp(vault)
  registerApprovals(vault)
  registerValues(vault)
  registerState(vault)
  registerPolicies(vault)
  registerPairings(vault)
  registerKeys(vault)
  registerCustody(vault)
}

function refuseUnknown(vault: Command, word: string): never {
  const meant = nearMiss(
    word,
    vault.commands.map((command) => command.name()),
  )
  const hint = meant === undefined ? '' : `\n(Did you mean ${meant}?)`
  return vault.error(`error: unknown command '${word}'${hint}`, { code: 'commander.unknownCommand' })
}

async function run(flags: RunFlags, output: Output): Promise<void> {
  const { mode } = flags
  if (mode !== 'http' && mode !== 'http-mcp')
    throw new UsageError(`Expected --mode http, http-mcp or stdio, got ${mode}.`)
  if (flags.agent !== undefined) throw new UsageError('--agent goes with --mode stdio.')
  const { runVault } = await import('../vault/runVault.ts')
  const home = vaultHome(flags.home, process.env)
  await runVault(
    {
      home,
      socketPath: ownerSocket(home, flags.socket),
      mode,
      ...(await serveSettings(flags, home, process.env, (text) => output.warn(text))),
      password: passwordOf(flags, output),
      tokenless: flags.insecureNoToken === true,
    },
    output,
  )
}

async function runForOne(flags: RunFlags, output: Output): Promise<void> {
  for (const name of ['host', 'port', 'localAgent', 'localPort', 'requireToken'] as const) {
    if (flags[name] !== undefined)
      throw new UsageError(
        '--mode stdio opens no port: --host, --port, --local-… and --require-token do not go with it.',
      )
  }
  if (flags.agent !== undefined && flags.insecureNoToken === true)
    throw new UsageError('--insecure-no-token has an agent of its own: it does not go with --agent.')
  if (flags.passwordFile === undefined || flags.passwordFile === '-')
    throw new UsageError('Expected --password-file FILE: standard input is where the agent speaks.')
  const { runStdio } = await import('../vault/runStdio.ts')
  const home = vaultHome(flags.home, process.env)
  await runStdio(
    {
      home,
      socketPath: ownerSocket(home, flags.socket),
      agent: flags.agent,
      tokenless: flags.insecureNoToken === true,
      ...(await serveSettings(flags, home, process.env, (text) => output.warn(text))),
      password: await neededPassword(flags, output),
    },
    output,
  )
}
