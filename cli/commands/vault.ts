import type { Command } from 'commander'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import type { Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { registerAgents, registerPairings } from '../vault/agentCommands.ts'
import { registerApprovals } from '../vault/approvalCommands.ts'
import { registerBudget } from '../vault/budgetCommands.ts'
import {
  type CommonFlags,
  neededPassword,
  ownerSocket,
  passwordOf,
  told,
  vaultHome,
  withCommonFlags,
} from '../vault/flags.ts'
import { registerCustody, registerKeys } from '../vault/keyCommands.ts'
import { registerMcp } from '../vault/mcpCommand.ts'
import { registerPolicies, registerValues } from '../vault/ruleCommands.ts'
import { readSecretFile } from '../vault/secretFiles.ts'
import { type ServeFlags, serveSettings } from '../vault/serveSettings.ts'
import { registerOpen, registerState } from '../vault/stateCommands.ts'

interface RunFlags extends CommonFlags, ServeFlags {
  readonly mode: string
  readonly agent?: string
  readonly insecureNoToken?: boolean
}

interface InitFlags extends CommonFlags {
  readonly mnemonicFile?: string
}

/** Adds `tollgate vault`: keeps keys and secrets on this machine, and signs what its owner allows. */
export function registerVault(program: Command): void {
  const vault = withCommonFlags(program.command('vault'))
    .description(
      'Run a vault, which keeps the keys and secrets of agents on this machine and signs what you allow.',
    )
    .option(
      '--mode <mode>',
      'http; http-mcp: also MCP at /mcp; stdio: MCP over standard input for one agent',
      'http',
    )
    .option('--agent <name>', 'with --mode stdio: name of the agent (default: the only agent)')
    .option(
      '--config <file>',
      'configuration file (default: vault.yaml in the folder of the vault); flags override its options',
    )
    .option('--host <address>', 'loopback address to listen on (default: 127.0.0.1)')
    .option('--port <n>', 'port for agents; 0 picks a free port (default: 8420)')
    .option(
      '--local-agent <name>',
      'open a second port for programs on this machine without a token; they act as this agent',
    )
    .option('--local-port <n>', 'number of the second port (default: 8421)')
    .option('--require-token', 'open the second port only for agents that send their token')
    .option('--testnets', 'also allow the test chains Base Sepolia and Solana Devnet')
    .option('--relay <url>', 'URL of the relay through which paired agents on other machines connect')
    .option(
      '--relay-ca <file>',
      "PEM file with the relay's certificate authority; needed only for a private certificate authority",
    )
    .option('--solana-rpc <url>', 'URL of the node for payments on Solana (default: the public node)')
    .option('--idle-minutes <n>', 'lock the vault after this many minutes without use (default: 15)')
    .option('--max-hours <n>', 'lock the vault after this many hours, even if it is in use (default: 12)')
    .option('--insecure-no-token', 'accept requests without a token; only for test suites')
    .addHelpText(
      'after',
      `
First steps:
  tollgate vault init --password-file pw            create a vault
  tollgate vault --password-file pw                 run it for the agents on this machine
  tollgate vault agents add NAME --scopes LIST      add an agent
  tollgate vault open                               approve requests in a browser
The other commands use the running vault. If none is running, they open its folder with the password.`,
    )
    // Commander would report a misspelled subcommand as an excess argument, because this command has an action of its own.
    .allowExcessArguments()
    .helpCommand(true)
    .action((flags: RunFlags, { args }: Command) => {
      if (args.length > 0) refuseUnknown(vault, args[0]!)
      return flags.mode === 'stdio'
        ? told(flags, (output) => runForOne(flags, output), process.stderr)
        : told(flags, (output) => run(flags, output))
    })

  // An option before a subcommand's name applies to the subcommand too. The position of a flag therefore never selects another
  // vault.
  vault.enablePositionalOptions().hook('preAction', (_vault, action) => {
    for (const name of ['home', 'socket', 'passwordFile', 'json']) {
      const given = vault.getOptionValue(name)
      if (action.getOptionValue(name) === undefined && given !== undefined) action.setOptionValue(name, given)
    }
  })

  withCommonFlags(vault.command('init'))
    .description('Create a vault in an empty folder, and print its recovery words once.')
    .option(
      '--mnemonic-file <file>',
      'file with your own recovery words (BIP-39); - reads them from standard input',
    )
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
            : ['Write these words down. They are not shown again:', made.mnemonic]
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
  registerBudget(vault)
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
  if (flags.agent !== undefined) throw new UsageError('--agent works only with --mode stdio.')
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
        '--mode stdio opens no port and cannot be combined with --host, --port, --local-… or --require-token.',
      )
  }
  if (flags.agent !== undefined && flags.insecureNoToken === true)
    throw new UsageError('--insecure-no-token has its own agent and cannot be combined with --agent.')
  if (flags.passwordFile === undefined || flags.passwordFile === '-')
    throw new UsageError('Expected --password-file FILE, because the agent uses standard input.')
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
