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
    .description("Connect an agent on this machine to its owner's vault, through a relay.")
    .option(
      '--pair <token>',
      'one-time pairing token, needed only the first time; - reads it from standard input',
    )
    .option(
      '--pair-file <file>',
      'file with the pairing token, to use instead of --pair if other users can see the arguments of this process',
    )
    .requiredOption('--service-id <name>', 'name of the agent service on this machine')
    .requiredOption('--vault <id>', 'id of the vault')
    .requiredOption('--hpke-key <key>', 'public encryption key of the vault, in base64')
    .requiredOption('--relay <url>', 'URL of the relay, such as wss://relay.example.com')
    .option('--port <port>', 'port to listen on', '8421')
    .option(
      '--host <host>',
      'address to listen on; other than loopback only with --require-token',
      '127.0.0.1',
    )
    .option('--home <folder>', "folder with the proxy's key (default: ~/.tollgate/proxy)")
    .option('--require-token', 'serve only callers that send the token, which is printed at the first start')
    .option(
      '--relay-ca <file>',
      "PEM file with the relay's certificate authority; needed only for a private certificate authority",
    )
    .option('--log-level <level>', 'lowest level of log entries: debug, info, warn or error', 'info')
    .option('--json', 'print one JSON object per line, even on a terminal')
    .addHelpText(
      'after',
      `
The vault's owner gets this command with all its values from the vault. The first time, four words are shown here and
at the vault: the owner compares them and confirms. After that the pairing token is used up and not needed.
Point the agent to the printed address (DCP_URL). The agent calls GET /v1/capabilities first.

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

/** How long the first pairing may wait for a response before the command prints a warning, in ms. */
const SILENCE_MS = 5_000

const streams = { stdout: process.stdout, stderr: process.stderr, env: process.env }

async function runProxy(flags: ProxyFlags, output: Output): Promise<void> {
  const port = portOf(flags.port)
  const pair = await tokenOf(flags)
  // Other users can see a process's arguments, and these contain the token. A new process title hides them.
  process.title = 'tollgate proxy'
  const [{ startProxy }, { remoteRoutes }, { createLog }, { default: closeWithGrace }] = await Promise.all([
    import('../../vault/proxy/startProxy.ts'),
    import('../../vault/operations/table.ts'),
    import('../runtime/createLog.ts'),
    import('close-with-grace'),
  ])
  const ca = flags.relayCa === undefined ? undefined : await readFile(flags.relayCa, 'utf8')
  // A proxy with a mistyped token waits for a vault that does not exist. This looks the same as a vault that is down.
  const silence = setTimeout(
    () =>
      output.warn(
        `No vault responds through ${flags.relay} yet. This proxy keeps trying. Expected the relay to be reachable, the vault to be running and unlocked ` +
          'with the same --relay, and the exact command that the vault printed less than 15 minutes ago. tollgate vault pair new prints a new one.',
      ),
    SILENCE_MS,
  )
  const proxy = await startProxy({
    pair,
    serviceId: flags.serviceId,
    vaultId: flags.vault,
    hpkeKey: flags.hpkeKey,
    relay: flags.relay,
    routes: remoteRoutes,
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
  // Installed before the ready message, because a program that reads the message may send a signal at once.
  closeWithGrace({ delay: 5_000, logger: false }, () => proxy.close())
  const { url, newToken } = proxy
  const message =
    newToken === undefined ? '' : `\nCallers need this token, which is shown only once: ${newToken}`
  output.result(
    { url, ...(newToken === undefined ? {} : { token: newToken }) },
    `Agents on this machine reach the vault at ${url}.${message}`,
  )
}

async function tokenOf({ pair, pairFile }: ProxyFlags): Promise<string | undefined> {
  if (pair !== undefined && pairFile !== undefined)
    throw new UsageError('expected --pair or --pair-file, not both')
  if (pairFile !== undefined) return (await readFile(pairFile, 'utf8')).trim()
  return pair === '-' ? (await textOf(process.stdin)).trim() : pair
}
