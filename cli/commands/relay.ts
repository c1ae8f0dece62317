import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { createOutput } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'

interface RelayFlags {
  readonly host: string
  readonly port: string
  readonly tlsCert?: string
  readonly tlsKey?: string
  readonly trustProxy?: true
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
}

export function registerRelay(program: Command): void {
  program
    .command('relay')
    .description('Join remote agents to the vaults of their owners; sees ciphertext only.')
    .option('--host <host>', 'address to listen on', '127.0.0.1')
    .option('--port <port>', 'port to listen on', '8422')
    .option('--tls-cert <file>', 'certificate chain, PEM; with --tls-key the relay speaks wss itself')
    .option('--tls-key <file>', 'private key of the certificate, PEM')
    .option('--trust-proxy', 'count callers by X-Forwarded-For; only behind a proxy that sets it')
    .option('--log-level <level>', 'debug, info, warn or error', 'info')
    .addHelpText(
      'after',
      `
A vault and the proxy of a remote agent both connect to the relay, so neither needs an open port. What they say is
encrypted between the two; the relay learns addresses, times and sizes in six steps, and keeps nothing. Without a
certificate it belongs behind a proxy that ends TLS. GET /healthz answers 200.

Examples:
  tollgate relay --host 0.0.0.0 --port 443 --tls-cert cert.pem --tls-key key.pem
  tollgate relay --port 8422 --trust-proxy`,
    )
    .action(async (flags: RelayFlags) => {
      try {
        await runRelay(flags)
      } catch (error) {
        process.exitCode = createOutput(process).fail(error)
      }
    })
}

async function runRelay({ host, port, tlsCert, tlsKey, trustProxy, logLevel }: RelayFlags): Promise<void> {
  if ((tlsCert === undefined) !== (tlsKey === undefined))
    throw new UsageError('expected --tls-cert and --tls-key together, or neither')
  const options = { host, port: portOf(port), trustProxy: trustProxy === true }
  const [{ startRelay }, { createLog }, { default: closeWithGrace }] = await Promise.all([
    import('../../vault/relay/startRelay.ts'),
    import('../runtime/createLog.ts'),
    import('close-with-grace'),
  ])
  const log = createLog({ level: logLevel, format: 'auto' })
  const tls =
    tlsCert && tlsKey
      ? { cert: await readFile(tlsCert, 'utf8'), key: await readFile(tlsKey, 'utf8') }
      : undefined
  const relay = await startRelay({ ...options, log, ...(tls ? { tls } : {}) })
  // Before it says that it is up: whoever reads that may send a signal at once.
  closeWithGrace({ delay: 5_000, logger: false }, () => relay.close())
  log.info({ url: relay.url }, 'the relay is running')
}

/** @throws UsageError for what is no port. */
export function portOf(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new UsageError(`expected a port from 0 to 65535, got ${text}`)
}
