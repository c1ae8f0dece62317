import { createHash, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Command, CommandLock, KeptPayment, KeptPayments } from '../../buyer/keptPayments.ts'
import { UsageError } from '../../buyer/usageError.ts'
import { familyOf } from '../../core/domain/network.ts'
import { parseBody } from '../../core/x402/parseBody.ts'
import { isObject, own } from '../../core/x402/strictJson.ts'
import { isVaultError } from '../../vault/errors/error.ts'
import { type LockOptions, takeHome } from '../../vault/storage/disk/homeLock.ts'

/** How long the folder of a released lock stays, in ms: a process that has read it may still be about to take it. */
const KEEP_MS = 7 * 86_400_000

/** Largest file that is read back: a request body of a few megabytes in base64. */
const MAX_FILE_BYTES = 16_000_000

/** Payments as files of one folder. The locks of their commands lie beside it. */
export const createPaymentFiles = (dir: string): KeptPayments => ({
  idOf: idOfCommand,
  lock: (commandId) => lockCommand(dir, commandId),
  find: (commandId) => findPayments(dir, commandId),
  save: (commandId, payment) => savePayment(dir, commandId, payment),
  load: loadPayment,
  remove: removeFile,
  keepOrderKey: (commandId, order) => keepOrderKey(dir, commandId, order),
  dropOrderKey: (commandId) => removeFile(orderPath(dir, commandId)),
})

/** Names the files of a command; says nothing of what is in it. */
const idOfCommand = ({ url, method, body = new Uint8Array() }: Command): string =>
  createHash('sha256')
    .update(JSON.stringify([method, url.href, createHash('sha256').update(body).digest('hex')]))
    .digest('hex')
    .slice(0, 32)

/**
 * Writes a payment to disk, synced, before it is sent: after a crash the same payment can be sent again, and no second
 * one needs to be signed. The file is as good as the money and may hold the user's headers, so only the owner reads it.
 * It comes into being whole: what is there is a payment that may have been sent.
 *
 * @returns the file's path
 */
async function savePayment(dir: string, commandId: string, file: KeptPayment): Promise<string> {
  const stamp = file.createdAt.replace(/[-:]|\.\d+/g, '')
  const path = join(dir, `${commandId}-${stamp}-${randomBytes(4).toString('hex')}.json`)
  await writeWhole(path, `${JSON.stringify(file, null, 2)}\n`)
  return path
}

async function writeWhole(path: string, text: string): Promise<void> {
  const dir = dirname(path)
  await mkdir(dir, { recursive: true, mode: 0o700 })
  await chmod(dir, 0o700)
  const unfinished = `${path}.part`
  const handle = await open(unfinished, 'w', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(unfinished, path)
  // The name is only as durable as its folder.
  const folder = await open(dir, 'r')
  await folder.sync().finally(() => folder.close())
}

/**
 * The payments of a command that were kept, the newest first.
 *
 * @throws {UsageError} the folder can not be read
 */
async function findPayments(dir: string, commandId: string): Promise<string[]> {
  const names = await readdir(dir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return []
    throw new UsageError(`The folder of payments, ${dir}, can not be read (${error.code ?? 'unknown'}).`)
  })
  return names
    .filter((name) => name.startsWith(`${commandId}-`) && name.endsWith('.json'))
    .sort()
    .reverse()
    .map((name) => join(dir, name))
}

/**
 * The Idempotency-Key under which a vault was asked, or is to be asked, for the payment of this offer: the one that a run
 * which was killed had used, so that the vault gives what it signed then and its owner is not asked twice.
 *
 * @param order what is ordered; another order gets another key
 */
async function keepOrderKey(dir: string, commandId: string, order: unknown): Promise<string> {
  const path = orderPath(dir, commandId)
  const orderHash = createHash('sha256').update(JSON.stringify(order)).digest('hex')
  const kept = parseBody(await readFile(path).catch(() => new Uint8Array()))
  const before = kept.ok && isObject(kept.value) ? kept.value : {}
  const key = own(before, 'idempotencyKey')
  if (own(before, 'orderHash') === orderHash && typeof key === 'string' && /^pay_[\w-]{22}$/.test(key))
    return key
  const idempotencyKey = `pay_${randomBytes(16).toString('base64url')}`
  await writeWhole(path, JSON.stringify({ orderHash, idempotencyKey }))
  return idempotencyKey
}

const orderPath = (dir: string, commandId: string): string => join(dir, `${commandId}.order`)

/** Reads such a file. @throws {UsageError} when it is not one, or when others may read or write it */
async function loadPayment(path: string): Promise<KeptPayment> {
  const info = await lstat(path).catch(() => undefined)
  if (info === undefined || !info.isFile())
    throw new UsageError(`Expected a file of a payment, got none at ${path}.`)
  if ((info.mode & 0o077) !== 0)
    throw new UsageError(`The payment file ${path} is open to others; chmod 600 it first.`)
  if (info.size > MAX_FILE_BYTES) throw new UsageError(`The payment file ${path} is too long to be one.`)
  const parsed = parseBody(await readFile(path))
  if (!parsed.ok || !isPaymentFile(parsed.value))
    throw new UsageError(`The file ${path} is not a payment that was saved here, or it is damaged.`)
  return parsed.value
}

const removeFile = (path: string): Promise<void> => rm(path, { force: true })

function isPaymentFile(value: unknown): value is KeptPayment {
  if (!isObject(value) || value['tollgatePayment'] !== 1) return false
  const { payment, headers } = value
  const texts = [value['url'], value['method'], value['paymentHeader'], value['createdAt']]
  if (!isObject(payment) || !isObject(payment['payload']) || !isObject(value['summary'])) return false
  const parts = [payment['network'], payment['asset'], payment['amount'], payment['payTo'], payment['payer']]
  return (
    [...texts, ...parts].every((text) => typeof text === 'string') &&
    familyOf(String(payment['network'])) !== undefined &&
    /^[1-9]\d{0,77}$/.test(String(payment['amount'])) &&
    typeof payment['validBeforeMs'] === 'number' &&
    typeof payment['blockBound'] === 'number' &&
    (value['body'] === null || typeof value['body'] === 'string') &&
    Array.isArray(headers) &&
    headers.length % 2 === 0 &&
    headers.every((header) => typeof header === 'string')
  )
}

/**
 * Takes one command for this run, so that two runs at the same time do not each sign a payment. The lock of a run that was
 * killed is free again. The locks lie beside the folder of payments, in which there is nothing but what can be resumed.
 *
 * @param commandId from {@link import('../../buyer/keptPayments.ts').KeptPayments.idOf}
 * @returns undefined while another run has it   @throws an error of the file system
 */
export async function lockCommand(
  stateDir: string,
  commandId: string,
  options?: LockOptions,
): Promise<CommandLock | undefined> {
  const locks = `${stateDir}-locks`
  await mkdir(locks, { recursive: true, mode: 0o700 })
  await removeOld(locks)
  const folder = join(locks, commandId)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  try {
    return await takeHome(folder, options)
  } catch (error) {
    if (isVaultError(error) && error.code === 'VAULT_IN_USE') return undefined
    throw error
  }
}

async function removeOld(locks: string): Promise<void> {
  for (const name of await readdir(locks)) {
    const folder = join(locks, name)
    const changedMs = (await stat(folder).catch(() => undefined))?.mtimeMs ?? Number.NaN
    if (changedMs < Date.now() - KEEP_MS) await rm(folder, { recursive: true, force: true })
  }
}
