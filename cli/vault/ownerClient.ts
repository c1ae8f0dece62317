import { existsSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { isConfigError } from '../../core/config/configError.ts'
import { silentLog } from '../../core/ports/log.ts'
import { type VaultCode, vaultCodes } from '../../vault/errors/codes.ts'
import { noVaultIn } from '../../vault/storage/disk/vaultFiles.ts'
import { UsageError } from '../output/exitCodes.ts'

/** Speaks for the owner: to a running vault on its socket, or to the vault's folder when none runs. */
export interface OwnerClient {
  /** True when a vault is running and was asked. */
  readonly isRemote: boolean
  /** @throws an error with the vault's own code and words when it refuses */
  call<T>(method: string, path: string, body?: object): Promise<T>
  close(): Promise<void>
}

export interface OwnerClientOptions {
  readonly home: string
  readonly socketPath: string
  /** Needed when no vault runs. */
  readonly password?: () => string | undefined | Promise<string | undefined>
  /** Is told, when no vault runs, that the configuration could not be read. */
  readonly warn?: (text: string) => void
}

/** The vault refused, or failed; its own code and words. */
export class VaultRefusal extends Error {
  override readonly name = 'VaultRefusal'
  readonly code: string
  readonly status: number

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

interface Answer {
  readonly status: number
  readonly body: string
}

/** @throws {UsageError} when no vault runs and there is no password; {VaultError} when the folder can't be opened */
export async function openOwnerClient(options: OwnerClientOptions): Promise<OwnerClient> {
  const running = await ask(options.socketPath, 'GET', '/v1/vault/status').catch((error: unknown) => {
    if (isNobody(error)) return undefined
    throw error
  })
  if (running !== undefined) {
    return {
      isRemote: true,
      call: async (method, path, body) => read(await ask(options.socketPath, method, path, body)),
      close: async () => {},
    }
  }
  if (!existsSync(join(options.home, 'vault.json'))) throw noVaultIn(options.home)
  if (options.password === undefined)
    throw new UsageError('No vault is running here: start it with tollgate vault.')
  const password = await options.password()
  if (password === undefined)
    throw new UsageError('No vault is running here. Start it, or give --password-file to open its folder.')
  // Only here: most commands speak to a vault that runs, and need none of its parts.
  const { openHost } = await import('./openHost.ts')
  const { createDispatch } = await import('../../vault/http/dispatch.ts')
  const host = await openHost({
    ...(await ownSettingsOf(options)),
    // Nobody but the owner is served: the addresses of test chains are told, whatever the vault offers when it runs.
    testnets: true,
    home: options.home,
    password,
    localUrl: () => 'http://127.0.0.1:8420',
    log: silentLog,
  })
  const dispatch = createDispatch(host.api, silentLog)
  return {
    isRemote: false,
    call: async (method, path, body) =>
      read(
        await dispatch({
          method,
          target: path,
          headers: { 'content-type': 'application/json' },
          body: body === undefined ? '' : JSON.stringify(body),
          caller: { kind: 'owner', via: 'socket' },
          requestId: 'cli',
        }),
      ),
    close: () => host.close(),
  }
}

/**
 * The chains and assets that the owner's rules may name. A configuration that can't be read here, such as one whose variables
 * are those of a service, keeps nobody from a backup: it is said, and rules that need it do not apply meanwhile.
 */
async function ownSettingsOf({ home, warn }: OwnerClientOptions) {
  const { readOwnAssets } = await import('./readVaultConfig.ts')
  const { ownSettings } = await import('./serveSettings.ts')
  try {
    const config = await readOwnAssets(home, process.env)
    return ownSettings(config)
  } catch (error) {
    if (!isConfigError(error)) throw error
    warn?.(`Chains and assets of your own are not known to this command. ${error.message}`)
    return {}
  }
}

function ask(socketPath: string, method: string, path: string, body?: object): Promise<Answer> {
  const text = body === undefined ? undefined : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const headers = text === undefined ? {} : { 'content-type': 'application/json' }
    const req = request({ socketPath, method, path, headers, agent: false }, (res) => {
      const chunks: Buffer[] = []
      res.on('data', (chunk: Buffer) => chunks.push(chunk))
      res.on('error', reject)
      res.on('end', () =>
        resolve({ status: res.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') }),
      )
    })
    req.on('error', reject)
    req.end(text)
  })
}

function read<T>({ status, body }: Answer): T {
  const value = JSON.parse(body)
  if (status < 400) return value
  const { code = 'FAILED', message = 'The vault refused.', action = '' } = value.error ?? {}
  const isGeneral = action === vaultCodes[code as VaultCode]?.remedy
  const next = isGeneral ? (ownersRemedies[code] ?? action) : action
  throw new VaultRefusal(status, code, next === '' ? message : `${message} ${next}`)
}

/** What an owner at a terminal does, where the general words of a code are for programs that send requests. */
const ownersRemedies: Readonly<Record<string, string>> = {
  // The message says what was expected.
  NOT_FOUND: '',
  UNKNOWN_SCOPE: '',
  VALIDATION_ERROR: '',
  TOO_MANY_ATTEMPTS: 'Restarting does not shorten it.',
  VAULT_LOCKED: 'Open it with tollgate vault unlock, or on the approvals page.',
}

/** No file, or a file that a crash left behind. */
const isNobody = (error: unknown): boolean =>
  ['ENOENT', 'ECONNREFUSED'].includes(String((error as NodeJS.ErrnoException).code))
