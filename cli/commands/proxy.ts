import { readFile } from 'node:fs/promises'
import { text as textOf } from 'node:stream/consumers'
import type { Command } from 'commander'
import { createOutput, type Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { portOf } from './relay.ts'

interface ProxyFlags {
  readonly pair?: string
  readonly pairFile?: string
  readonly serviceId: string
  readonly vault: string
  readonly hpkeKey: string
  readonly relay: string
  readonly port: string
  readonly host: string
  readonly home?: string
  readonly requireToken?: true
  readonly relayCa?: string
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
  readonly json?: true
}

export function registerProxy(program: Command): void {
  program
    .command('proxy')
    .description("Give an agent on this machine its owner's vault, through a relay.")
    .option(
      '--pair <token>',
      'one-time pair token; needed the first time only; - reads it from standard input',
    )
    .option(
      '--pair-file <file>',
      'file with the pair token: the arguments of a process can be seen by others',
    )
    .requiredOption('--service-id <name>', 'name of the remote agent service')
    .requiredOption('--vault <id>', 'identifier of the vault')
    .requiredOption('--hpke-key <key>', "the vault's public encryption key, base64")
    .requiredOption('--relay <url>', 'address of the relay, wss://…')
    .option('--port <port>', 'port to listen on', '8421')
    .option(
      '--host <host>',
      'address to listen on; beyond this machine only with --require-token',
      '127.0.0.1',
    )
    .option('--home <folder>', "where the proxy's key is kept; default ~/.tollgate/proxy")
    .option('--require-token', 'serve only callers who show the token that is printed at the first start')
    .option('--relay-ca <file>', 'certificate authority of the relay, PEM, where it is one of your own')
    .option('--log-level <level>', 'debug, info, warn or error', 'info')
    .option('--json', 'one JSON object a line, also on a terminal')
    .addHelpText(
      'after',
      `
The vault's owner gets this command with all its values from the vault. The first time, four words are shown here and
at the vault: the owner compares them and confirms. From then on the pair token is of no more use and not needed.
Point the agent to the printed address (DCP_URL); it calls GET /v1/capabilities first.

Examples:
  tollgate proxy --pair vpt_… --service-id my-agent --vault VAULT --hpke-key KEY --relay wss://relay.example
  tollgate proxy --pair-file token --service-id my-agent --vault VAULT --hpke-key KEY --relay wss://relay.example`,
    )
    .action(async (flags: ProxyFlags) => {
      const output = createOutput({ ...streams, json: flags.json })
      try {
        await runProxy(flags, output)
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}

/** How long a first pairing may hear nothing before it is said. */
const SILENCE_MS = 5_000

const streams = { stdout: process.stdout, stderr: process.stderr, env: process.env }

async function runProxy(flags: ProxyFlags, output: Output): Promise<void> {
  const port = portOf(flags.port)
  const pair = await tokenOf(flags)
  // The token stands in this process's arguments; from here on nobody needs to see it there.
  process.title = 'tollgate proxy'
  const [{ startProxy }, { createLog }, { default: closeWithGrace }] = await Promise.all([
    import('../../vault/proxy/startProxy.ts'),
    import('../runtime/createLog.ts'),
    import('close-with-grace'),
  ])
  const ca = flags.relayCa === undefined ? undefined : await readFile(flags.relayCa, 'utf8')
  // A mistyped token waits where no vault is, and can't be told from a vault that is away.
  const silence = setTimeout(
    () =>
      output.warn(
        `No vault answers through ${flags.relay} yet; it goes on trying. Expected the relay to be reachable, the vault to run, unlocked, ` +
          'with the same --relay, and the command as the vault printed it, at most 15 minutes ago: tollgate vault pair new prints another.',
      ),
    SILENCE_MS,
  )
  const proxy = await startProxy({
    pair,
    serviceId: flags.serviceId,
    vaultId: flags.vault,
    hpkeKey: flags.hpkeKey,
    relay: flags.relay,
    port,
    host: flags.host,
    requireToken: flags.requireToken === true,
    log: createLog({ level: flags.logLevel, format: 'auto' }),
    onPhrase: (phrase) => {
      clearTimeout(silence)
      output.result({ phrase }, `Compare with the vault, then confirm there:\n\n  ${phrase}\n`)
    },
    ...(flags.home === undefined ? {} : { home: flags.home }),
    ...(ca === undefined ? {} : { ca }),
  }).finally(() => clearTimeout(silence))
  // Before it says that it is up: whoever reads that may send a signal at once.
  closeWithGrace({ delay: 5_000, logger: false }, () => proxy.close())
  const { url, newToken } = proxy
  const told = newToken === undefined ? '' : `\nIts callers need this token, which is shown once: ${newToken}`
  output.result(
    { url, ...(newToken === undefined ? {} : { token: newToken }) },
    `The vault is at ${url} for agents on this machine.${told}`,
  )
}

async function tokenOf({ pair, pairFile }: ProxyFlags): Promise<string | undefined> {
  if (pair !== undefined && pairFile !== undefined)
    throw new UsageError('expected --pair or --pair-file, not both')
  if (pairFile !== undefined) return (await readFile(pairFile, 'utf8')).trim()
  return pair === '-' ? (await textOf(process.stdin)).trim() : pair
}
