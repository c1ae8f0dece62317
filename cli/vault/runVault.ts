import { dirname } from 'node:path'
import closeWithGrace from 'close-with-grace'
import type { LocalAgents } from '../../vault/http/localAgents.ts'
import { type Mount, startVaultServer, type VaultServer } from '../../vault/http/server.ts'
import { type McpMount, oauthRefusal } from '../../vault/mcp/httpMount.ts'
import { createOwnerPage } from '../../vault/page/ownerPage.ts'
import type { Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { createLog } from '../runtime/createLog.ts'
import { releaseHeap } from '../runtime/heap/releaseHeap.ts'
import { allowTokenless, openHost, tokenlessAgent } from './openHost.ts'
import type { ServeSettings } from './serveSettings.ts'

export interface RunVaultOptions extends ServeSettings {
  readonly home: string
  readonly socketPath: string
  /** `http-mcp` also serves `/mcp`. */
  readonly mode: 'http' | 'http-mcp'
  readonly password: string | undefined
  readonly tokenless: boolean
}

/** The user who runs the vault is its owner. */
const socketOwner = { caller: { kind: 'owner', via: 'socket' }, requestId: 'start' } as const

/** Runs a vault until the process gets a stop signal. */
export async function runVault(options: RunVaultOptions, output: Output): Promise<void> {
  const { home, password, host, port } = options
  if (options.tokenless && password === undefined)
    throw new UsageError(
      '--insecure-no-token needs --password-file, because its agent is created in the unlocked vault.',
    )
  const log = createLog({ level: 'info', format: 'auto' })
  let server: VaultServer | undefined
  let mcp: McpMount | undefined
  let local: LocalAgents | undefined
  const opened = await openHost({
    home,
    password,
    testnets: options.testnets,
    assets: options.assets,
    ownChains: options.ownChains,
    relay: options.relay,
    solanaRpc: options.solanaRpc,
    evmRpc: options.evmRpc,
    relayCa: options.relayCa,
    idleLockMs: options.idleLockMs,
    maxAgeMs: options.maxAgeMs,
    logLimits: options.logLimits,
    plugins: options.plugins,
    pluginCidrs: options.pluginCidrs,
    localUrl: () => urlOf(server, host, port),
    log,
  })
  const mounts: Mount[] = [createOwnerPage()]
  try {
    if (options.tokenless) await allowTokenless(opened.api, output)
    if (options.mode === 'http-mcp') {
      // The MCP server is imported only if it is served.
      const { createMcpMount } = await import('../../vault/mcp/httpMount.ts')
      mcp = createMcpMount(opened.api, log)
      mounts.push(mcp, oauthRefusal)
    }
    releaseHeap()
    server = await startVaultServer(opened.api, log, {
      host,
      port,
      socketPath: options.socketPath,
      isSocketInHome: dirname(options.socketPath) === home,
      mounts,
      ...(options.tokenless && { tokenlessAgent }),
    })
    if (options.local !== undefined) {
      const { startLocalAgents } = await import('../../vault/http/localAgents.ts')
      local = await startLocalAgents(opened.api, log, { host, ...options.local })
    }
  } catch (error) {
    await mcp?.close()
    await server?.close()
    await opened.close()
    throw error
  }
  const listening = server
  // Installed before the line that reports the vault as running, because a program that reads it may send a signal at once.
  closeWithGrace({ delay: 10_000, logger: false, skip: ['SIGHUP'] }, async ({ err }) => {
    if (err) log.error({ err }, 'stopping after an error')
    await mcp?.close()
    await local?.close()
    await listening.close()
    await opened.close()
  })
  // A parent process with an IPC channel expects that this process ends with it, even if the parent is killed.
  if (process.connected) process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  const url = urlOf(server, host, port)
  const { locked } = opened.api.state()
  const { registry } = opened.api
  const localAgent = options.local?.agent
  if (localAgent !== undefined && registry.isLoaded && registry.byName(localAgent) === undefined)
    output.warn(
      `The vault has no agent ${localAgent} yet, so calls without a token are refused until you add the agent.`,
    )
  for (const { message, action } of opened.api.warnings(socketOwner)) output.warn(`${message} ${action}`)
  output.result(
    {
      mode: options.mode,
      url,
      socket: options.socketPath,
      locked,
      ...(mcp && { mcp: `${url}${mcp.path}` }),
      ...(local && { local: local.url }),
    },
    `The vault serves agents at ${[url, ...(mcp ? [`${url}${mcp.path}`] : []), ...(local ? [local.url] : [])].join(' and ')}. The vault is ${locked ? 'locked: tollgate vault unlock' : 'unlocked'}. Owner: tollgate vault open, or ${options.socketPath}`,
  )
}

const urlOf = (server: VaultServer | undefined, host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${server?.address.port ?? port}`
