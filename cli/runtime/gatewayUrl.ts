import { existsSync, readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { parse } from 'yaml'
import { interpolate } from '../../core/config/read/interpolate.ts'
import { UsageError } from '../output/exitCodes.ts'
/** URL of a listener on this machine. A wildcard address is replaced by loopback. */
export function urlOf({ host, port }: { readonly host: string; readonly port: number }): string {
  if (host === '0.0.0.0' || host === '::') return `http://127.0.0.1:${port}`
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** The flags with which a command finds its gateway. */
export interface GatewayFlags {
  readonly config?: string
  readonly gateway?: string
}

export const takesGateway = (command: Command): Command =>
  command
    .option('-c, --config <file>', 'configuration file of a gateway on this machine (default: tollgate.yaml)')
    .option(
      '--gateway <url>',
      'base URL of the gateway (default: gateway.host and gateway.port of the configuration file)',
    )

/**
 * Base URL of the gateway. Only the section `gateway` is read from the configuration, because other sections may use secrets
 * that the seller's terminal does not have.
 *
 * @throws {UsageError} if the given configuration does not exist, or its section `gateway` cannot be read
 */
export function gatewayUrl({ config, gateway }: GatewayFlags, env: NodeJS.ProcessEnv = process.env): string {
  if (gateway !== undefined) return gateway
  const file = config ?? 'tollgate.yaml'
  if (!existsSync(file)) {
    if (config === undefined) return urlOf(standard)
    throw new UsageError(`Expected the configuration of a gateway in ${config}, but there is no such file.`)
  }
  const { host, port } = listenerIn(file)
  const at = {
    host: interpolate(String(host ?? standard.host), env).value,
    port: Number(interpolate(String(port ?? standard.port), env).value),
  }
  if (!URL.canParse(urlOf(at)))
    throw new UsageError(
      `Expected gateway.host and gateway.port in ${file} to be an address, got ${at.host} and ${port}. Set the gateway's address with --gateway.`,
    )
  return urlOf(at)
}

const standard = { host: '127.0.0.1', port: 8080 }

function listenerIn(file: string): { readonly host?: unknown; readonly port?: unknown } {
  try {
    return parse(readFileSync(file, 'utf8'), { logLevel: 'error' })?.gateway ?? {}
  } catch (cause) {
    throw new UsageError(
      `Can't read ${file}: ${(cause as Error).message.split('\n')[0]} Run tollgate check, or set the gateway's address with --gateway.`,
      { cause },
    )
  }
}
