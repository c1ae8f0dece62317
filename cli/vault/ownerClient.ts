import { existsSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { isConfigError } from '../../core/config/check/problem.ts'
import { silentLog } from '../../core/ports/log.ts'
import { noVaultIn } from '../../vault/disk/files.ts'
import { type VaultCode, vaultCodes } from '../../vault/errors/codes.ts'
import { UsageError } from '../output/exitCodes.ts'

/** Sends the owner's requests to a running vault's socket. If no vault is running, it opens the vault's folder itself. */
export interface OwnerClient {
  /** True if a running vault performs the calls. */
  readonly isRemote: boolean
  /** @throws an error with the vault's own code and message if the vault refuses */
  call<T>(method: string, path: string, body?: object): Promise<T>
  close(): Promise<void>
}

export interface OwnerClientOptions {
  readonly home: string
  readonly socketPath: string
  /** Required if no vault is running. */
  readonly password?: () => string | undefined | Promise<string | undefined>
  /** Receives a warning if no vault is running and the configuration could not be read. */
  readonly warn?: (text: string) => void
}

/** The vault's refusal or failure, with its own code and message. */
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

/**
 * Creates the client. @throws {UsageError} if no vault is running and there is no password, {VaultError} if the folder cannot
 * be opened
 */
export async function openOwnerClient(options: OwnerClientOptions): Promise<OwnerClient> {
  const running = await sendToOwner(options.socketPath, 'GET', '/v1/vault/status').catch((error: unknown) => {
    if (isNotRunning(error)) return undefined
    throw error
  })
  if (running !== undefined) {
    return {
      isRemote: true,
      call: async (method, path, body) => read(await sendToOwner(options.socketPath, method, path, body)),
      close: async () => {},
    }
  }
  if (!existsSync(join(options.home, 'vault.json'))) throw noVaultIn(options.home)
  if (options.password === undefined)
    throw new UsageError('No vault is running here. Start a vault with tollgate vault.')
  const password = await options.password()
  if (password === undefined)
    throw new UsageError(
      'No vault is running here. Start a vault, or give --password-file to open its folder.',
    )
  // This module is imported only here, because most commands use a running vault and do not need it.
  const { openHost } = await import('./openHost.ts')
  const { createDispatch } = await import('../../vault/http/dispatch.ts')
  const host = await openHost({
    ...(await ownSettingsOf(options)),
    // This host serves only the owner, so it shows the addresses of test chains even if the vault does not offer these chains.
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
 * The chains and assets that the owner's rules may name. A configuration may be unreadable here, for example because its
 * environment variables exist only for a service. That must not prevent a backup, so it causes only a warning. Rules that need
 * the configuration do not apply meanwhile.
 */
async function ownSettingsOf({ home, warn }: OwnerClientOptions) {
  const { readOwnAssets } = await import('./readVaultConfig.ts')
  const { ownSettings } = await import('./serveSettings.ts')
  try {
    const config = await readOwnAssets(home, process.env)
    return ownSettings(config)
  } catch (error) {
    if (!isConfigError(error)) throw error
    warn?.(`This command could not read your own chains and assets. ${error.message}`)
    return {}
  }
}

function sendToOwner(socketPath: string, method: string, path: string, body?: object): Promise<Answer> {
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

/** Remedies for an owner at a terminal. The remedies of the error codes are written for programs that send requests. */
const ownersRemedies: Readonly<Record<string, string>> = {
  // The message already states what was expected.
  NOT_FOUND: '',
  UNKNOWN_SCOPE: '',
  VALIDATION_ERROR: '',
  TOO_MANY_ATTEMPTS: 'A restart does not shorten the wait.',
  VAULT_LOCKED: 'Unlock the vault with tollgate vault unlock, or on the approvals page.',
}

/** Whether no vault listens: there is no socket file, or a crash left it behind. */
const isNotRunning = (error: unknown): boolean =>
  ['ENOENT', 'ECONNREFUSED'].includes(String((error as NodeJS.ErrnoException).code))
