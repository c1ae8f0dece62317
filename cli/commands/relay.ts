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
    .description(
      "Run a relay, which connects agents on other machines to their owners' vaults. The relay reads only ciphertext.",
    )
    .option('--host <host>', 'address to listen on', '127.0.0.1')
    .option('--port <port>', 'port to listen on', '8422')
    .option(
      '--tls-cert <file>',
      'PEM file with the certificate chain; with --tls-key, the relay serves wss itself',
    )
    .option('--tls-key <file>', 'PEM file with the private key of the certificate')
    .option(
      '--trust-proxy',
      "read the callers' addresses from X-Forwarded-For; use it only behind a proxy that sets this header",
    )
    .option('--log-level <level>', 'lowest level of log entries: debug, info, warn or error', 'info')
    .addHelpText(
      'after',
      `
A vault and the proxy of a remote agent both connect to the relay, so neither needs an open port. Their messages are
end-to-end encrypted; the relay sees addresses, times and sizes (in six steps), and stores nothing. Without a
certificate, run it behind a proxy that terminates TLS. GET /healthz responds with 200.

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
  // Installed before the ready message, because a program that reads the message may send a signal at once.
  closeWithGrace({ delay: 5_000, logger: false }, () => relay.close())
  log.info({ url: relay.url }, 'the relay is running')
}

/** @throws UsageError for an invalid port */
export function portOf(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new UsageError(`Expected a port from 0 to 65535, got ${text}`)
}
