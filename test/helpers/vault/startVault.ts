import { mkdtempSync, rmSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Egress } from '../../../core/ports/egress.ts'
import { type Log, silentLog } from '../../../core/ports/log.ts'
import { type AssetTable, pinnedAssets, type VaultChain } from '../../../vault/effects/assets.ts'
import type { PaymentRpc } from '../../../vault/effects/payment.ts'
import type { OwnerContext } from '../../../vault/host/caller.ts'
import { createVaultApi, type VaultApi } from '../../../vault/host/createVaultApi.ts'
import type { VaultPluginEntry } from '../../../vault/host/pipelines.ts'
import { createRemoteAccess } from '../../../vault/http/remoteAccess.ts'
import { type Mount, startVaultServer, type VaultServer } from '../../../vault/http/server.ts'
import chainEvm from '../../../vault/plugins/chain-evm/index.ts'
import chainSolana from '../../../vault/plugins/chain-solana/index.ts'
import type { VaultClock } from '../../../vault/ports/clock.ts'
import type { VaultEgress } from '../../../vault/ports/egress.ts'
import type { Vault } from '../../../vault/ports/vault.ts'
import type { PluginLimits } from '../../../vault/sandbox/sandboxedPlugin.ts'
import { createVault } from '../../../vault/storage/createVault.ts'
import { openVault } from '../../../vault/storage/localVault.ts'
import type { PasswordHasher } from '../../../vault/storage/password/kdf.ts'

export const password = 'correct horse battery staple'
/** BIP-39's own example; never funded. */
export const mnemonic =
  'abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about'

/** Wall time that a test can turn. */
export interface TestClock extends VaultClock {
  advance(ms: number): void
}

export function createTestClock(startMs = Date.UTC(2026, 10, 21, 10)): TestClock {
  let now = startMs
  let passed = 0
  return {
    now: () => now,
    monotonicMs: () => passed,
    advance(ms) {
      now += ms
      passed += ms
    },
  }
}

/** Quick, so that tests of everything but passwords need not wait. */
export const quickHasher: PasswordHasher = {
  hash: async (text, salt) => {
    const { createHmac } = await import('node:crypto')
    return createHmac('sha256', salt).update(text).digest()
  },
}

export interface StartOptions {
  readonly home?: string
  readonly clock?: VaultClock
  readonly egress?: VaultEgress
  readonly plugins?: readonly VaultPluginEntry[]
  readonly pluginLimits?: PluginLimits
  readonly mounts?: readonly Mount[]
  readonly tokenlessAgent?: string
  /** `ws://…`: lets paired agents in through this relay. */
  readonly relay?: string
  /** Default: any free one. */
  readonly port?: number
  readonly log?: Log
  /** Default: the chains where money is real. */
  readonly enabled?: readonly VaultChain[]
  readonly assets?: AssetTable
  /** Default: {@link quickHasher}. */
  readonly hasher?: PasswordHasher
  readonly rpc?: PaymentRpc
}

export interface JsonResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any
}

export interface RunningVault {
  readonly home: string
  readonly url: string
  readonly socketPath: string
  readonly api: VaultApi
  readonly vault: Vault
  readonly owner: OwnerContext
  /** Adds an agent and returns how to call as it. */
  agent(name: string, scopes: readonly string[]): Promise<TestAgent>
  /** Without a credential, or with that in `headers`. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<JsonResponse>
  /** Over the owner's socket. */
  asOwner(method: string, path: string, body?: unknown): Promise<JsonResponse>
  close(): Promise<void>
}

export interface TestAgent {
  readonly id: string
  readonly token: string
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<JsonResponse>
}

interface Test {
  teardown(work: () => unknown): unknown
}

/** A vault in a folder of its own, unlocked, with its server on a free port and its owner's socket. */
export async function startVault(t: Test, options: StartOptions = {}): Promise<RunningVault> {
  const home = options.home ?? join(mkdtempSync(join(tmpdir(), 'vault-')), 'home')
  const clock = options.clock ?? createTestClock()
  const vault = await openOrCreate(home, clock, options.hasher ?? quickHasher)
  let server: VaultServer | undefined
  const assets = options.assets ?? pinnedAssets
  const remote =
    options.relay === undefined
      ? undefined
      : createRemoteAccess({ vault, relay: options.relay, clock, log: options.log ?? silentLog })
  const api = await createVaultApi({
    vault,
    chains: [chainEvm, chainSolana],
    enabled: options.enabled ?? ['solana', 'base', 'ethereum'],
    assets,
    egress: options.egress ?? noEgress,
    rpc: options.rpc ?? (() => undefined),
    clock,
    log: options.log ?? silentLog,
    localUrl: () => urlOf(server),
    plugins: options.plugins ?? [],
    ...(options.pluginLimits !== undefined && { pluginLimits: options.pluginLimits }),
    ...(remote !== undefined && { pairings: remote.pairings }),
  })
  await remote?.attach(api)
  const socketPath = join(home, 'owner.sock')
  server = await startVaultServer(api, options.log ?? silentLog, {
    host: '127.0.0.1',
    port: options.port ?? 0,
    socketPath,
    mounts: options.mounts ?? [],
    ...(options.tokenlessAgent !== undefined && { tokenlessAgent: options.tokenlessAgent }),
  })
  const { port } = server.address
  const call: RunningVault['call'] = (method, path, body, headers = {}) =>
    send({ host: '127.0.0.1', port, method, path, headers }, body)
  const owner: OwnerContext = { caller: { kind: 'owner', via: 'socket' }, requestId: 'test' }
  const close = async () => {
    await server?.close()
    await remote?.close()
    await api.close()
  }
  t.teardown(async () => {
    await close()
    rmSync(home, { recursive: true, force: true })
  })
  return {
    home,
    url: urlOf(server),
    socketPath,
    api,
    vault,
    owner,
    call,
    asOwner: (method, path, body) => send({ socketPath, method, path }, body),
    async agent(name, scopes) {
      const { id, token } = await api.agents.add({ name, scopes, requestsPerMinute: 1e6 }, owner)
      return {
        id,
        token,
        call: (method, path, body, headers = {}) =>
          call(method, path, body, { authorization: `Bearer ${token}`, ...headers }),
      }
    },
    close,
  }
}

const noEgress: VaultEgress = () => ({
  request: async (): ReturnType<Egress['request']> => {
    throw Object.assign(new Error('No way out in this test.'), { code: 'EGRESS_UNREACHABLE' })
  },
})

async function openOrCreate(home: string, clock: VaultClock, hasher: PasswordHasher): Promise<Vault> {
  try {
    const vault = await openVault({ home, clock, hasher })
    await vault.unlock(password)
    return vault
  } catch (error) {
    if ((error as { code?: string }).code !== 'VAULT_NOT_FOUND') throw error
  }
  const kdf = { memoryKiB: 65_536, passes: 3, lanes: 1 }
  return (await createVault({ home, clock, password, mnemonic, kdf, hasher })).vault
}

const urlOf = (server: VaultServer | undefined): string => `http://127.0.0.1:${server?.address.port ?? 0}`

interface Target {
  readonly host?: string
  readonly port?: number
  readonly socketPath?: string
  readonly method: string
  readonly path: string
  readonly headers?: Record<string, string>
}

/** A request whose `Host`, `Origin` and so on are what a test wants; `fetch` would not let it. */
function send({ headers = {}, ...where }: Target, body: unknown): Promise<JsonResponse> {
  const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body)
  const all = text === undefined ? headers : { 'content-type': 'application/json', ...headers }
  return new Promise((resolve, reject) => {
    const req = httpRequest({ agent: false, ...where, headers: all }, (res) => {
      const chunks: Buffer[] = []
      res.on('data', (chunk: Buffer) => chunks.push(chunk))
      res.on('error', reject)
      res.on('end', () => {
        const response = Buffer.concat(chunks).toString('utf8')
        resolve({
          status: res.statusCode!,
          headers: res.headers,
          body: response === '' ? null : JSON.parse(response),
        })
      })
    })
    req.on('error', reject)
    req.end(text)
  })
}
