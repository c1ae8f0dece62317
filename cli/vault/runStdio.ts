import { dirname } from 'node:path'
import closeWithGrace from 'close-with-grace'
import { isVaultError, VaultError } from '../../vault/errors/error.ts'
import { startVaultServer } from '../../vault/http/server.ts'
import { serveStdio } from '../../vault/mcp/serveStdio.ts'
import type { Output } from '../output/createOutput.ts'
import { createLog } from '../runtime/createLog.ts'
import { allowTokenless, type OpenHost, openHost, tokenlessAgent } from './openHost.ts'
import type { ServeSettings } from './serveSettings.ts'

export interface RunStdioOptions extends ServeSettings {
  readonly home: string
  readonly socketPath: string
  /** The agent that uses standard input. Undefined if there is only one agent. */
  readonly agent: string | undefined
  /** True to act as the agent of `--insecure-no-token`. */
  readonly tokenless: boolean
  readonly password: string
}

/**
 * Runs a vault for one agent, which uses MCP on standard input and output, until the agent disconnects. No port is opened, and
 * standard output contains only the protocol. The owner uses the socket, so every other command works meanwhile.
 *
 * @throws {VaultError} `VAULT_IN_USE` with what to do instead, `NOT_FOUND` for an unknown agent
 */
export async function runStdio(options: RunStdioOptions, output: Output): Promise<void> {
  const log = createLog({ level: 'info', format: 'auto' })
  const opened = await openHost({ ...options, localUrl: () => '', log }).catch((error: unknown) => {
    throw isInUse(error) ? inUse(error) : error
  })
  try {
    if (options.tokenless) await allowTokenless(opened.api, output)
    const agentId = agentOf(opened, options.tokenless ? tokenlessAgent : options.agent)
    const server = await startVaultServer(opened.api, log, {
      host: options.host,
      port: null,
      socketPath: options.socketPath,
      isSocketInHome: dirname(options.socketPath) === options.home,
    })
    const { damage } = opened.vault.audit
    if (damage !== undefined) output.warn(`The activity log was changed or damaged: ${damage}`)
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
        ? 'The vault has no agent yet. Add an agent with tollgate vault agents add.'
        : `Expected --agent with one of ${known.map((agent) => agent.name).join(', ')}.`,
    )
  }
  const agent = api.registry.byName(name)
  if (agent !== undefined && agent.revokedAt === null) return agent.id
  throw new VaultError(
    'NOT_FOUND',
    `The vault has no agent ${name}. Add the agent with tollgate vault agents add.`,
  )
}

const isInUse = (error: unknown): boolean => isVaultError(error) && error.code === 'VAULT_IN_USE'

const inUse = (cause: unknown): VaultError =>
  new VaultError(
    'VAULT_IN_USE',
    'A vault is already running for this folder, and only one process can use it. Run that vault with --mode http-mcp and give ' +
      'the agent its address, http://127.0.0.1:8420/mcp, and its token; or stop that vault.',
    { cause },
  )
