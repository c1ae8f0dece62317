import { existsSync, readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { parse } from 'yaml'
import { interpolate } from '../../core/config/read/interpolate.ts'
import { UsageError } from '../output/exitCodes.ts'
import { urlOf } from './urlOf.ts'

/** How a command that asks a gateway is told where it is. */
export interface GatewayFlags {
  readonly config?: string
  readonly gateway?: string
}

export const takesGateway = (command: Command): Command =>
  command
    .option('-c, --config <file>', 'configuration of a gateway on this machine (default: tollgate.yaml)')
    .option('--gateway <url>', 'base address of the gateway (default: where the configuration has it listen)')

/**
 * The base address of the gateway. Only where it listens is read of the configuration: the rest may need secrets that the seller's
 * terminal does not have.
 *
 * @throws {UsageError} for a configuration that was named and is not there, or whose `gateway` can't be read
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
      `Expected gateway.host and gateway.port in ${file} to be an address, got ${at.host} and ${port}. Name the gateway with --gateway.`,
    )
  return urlOf(at)
}

const standard = { host: '127.0.0.1', port: 8080 }

function listenerIn(file: string): { readonly host?: unknown; readonly port?: unknown } {
  try {
    return parse(readFileSync(file, 'utf8'), { logLevel: 'error' })?.gateway ?? {}
  } catch (cause) {
    throw new UsageError(
      `Can't read ${file}: ${(cause as Error).message.split('\n')[0]} See tollgate check, or name the gateway with --gateway.`,
      { cause },
    )
  }
}
