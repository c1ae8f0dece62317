import { dirname } from 'node:path'
import closeWithGrace from 'close-with-grace'
import { isVaultError, VaultError } from '../../vault/errors/error.ts'
import { startVaultServer } from '../../vault/http/server.ts'
import { serveStdio } from '../../vault/mcp/serveStdio.ts'
import type { Output } from '../output/createOutput.ts'
import { createLog } from '../runtime/createLog.ts'
import { letTokenlessIn, type OpenHost, openHost, tokenlessAgent } from './openHost.ts'
import type { ServeSettings } from './serveSettings.ts'

export interface RunStdioOptions extends ServeSettings {
  readonly home: string
  readonly socketPath: string
  /** Name of the agent that speaks on standard input; undefined for the only one there is. */
  readonly agent: string | undefined
  /** True to speak as the agent of `--insecure-no-token`. */
  readonly tokenless: boolean
  readonly password: string
}

/**
 * Runs a vault for one agent, which speaks MCP on standard input and output, until it has gone. No port is opened; the owner
 * decides over the socket, so every other command works meanwhile. Nothing but the protocol is written to standard output.
 *
 * @throws {VaultError} `VAULT_IN_USE` with what to do instead; `NOT_FOUND` for an agent that does not exist
 */
export async function runStdio(options: RunStdioOptions, output: Output): Promise<void> {
  const log = createLog({ level: 'info', format: 'auto' })
  const opened = await openHost({ ...options, localUrl: () => '', log }).catch((error: unknown) => {
    throw isInUse(error) ? inUse(error) : error
  })
  try {
    if (options.tokenless) await letTokenlessIn(opened.api, output)
    const agentId = agentOf(opened, options.tokenless ? tokenlessAgent : options.agent)
    const server = await startVaultServer(opened.api, log, {
      host: options.host,
      port: null,
      socketPath: options.socketPath,
      isSocketInHome: dirname(options.socketPath) === options.home,
    })
    const { damage } = opened.vault.audit
    if (damage !== undefined) output.warn(`The log of activity was changed or damaged: ${damage}`)
    const { stdin, stdout } = process
    const { ended } = await serveStdio({ api: opened.api, log, agentId, stdin, stdout })
    const grace = closeWithGrace({ delay: 10_000, logger: false, skip: ['SIGHUP'] }, async ({ err }) => {
      if (err) log.error({ err }, 'stopping after an error')
      await server.close()
      await opened.close()
    })
    void ended.then(() => grace.close())
  } catch (error) {
    await opened.close()
    throw error
  }
}

function agentOf({ api }: OpenHost, name: string | undefined): string {
  if (name === undefined) {
    const known = api.registry.list().filter(({ revokedAt }) => revokedAt === null)
    if (known.length === 1) return known[0]!.id
    throw new VaultError(
      'NOT_FOUND',
      known.length === 0
        ? 'There is no agent yet: let one in with tollgate vault agents add.'
        : `Expected --agent with one of ${known.map((agent) => agent.name).join(', ')}.`,
    )
  }
  const agent = api.registry.byName(name)
  if (agent !== undefined && agent.revokedAt === null) return agent.id
  throw new VaultError('NOT_FOUND', `There is no agent ${name}: let it in with tollgate vault agents add.`)
}

const isInUse = (error: unknown): boolean => isVaultError(error) && error.code === 'VAULT_IN_USE'

const inUse = (cause: unknown): VaultError =>
  new VaultError(
    'VAULT_IN_USE',
    'A vault runs for this folder already, and one folder is for one process. Run that one with --mode http-mcp and give ' +
      'the agent its address, http://127.0.0.1:8420/mcp, and its token; or stop it.',
    { cause },
  )
