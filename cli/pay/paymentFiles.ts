import { createHash, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { UsageError } from '../../buyer/buyer.ts'
import { type ChannelRecord, readRecord } from '../../buyer/channels/channelRecord.ts'
import type { Command, CommandLock, SavedPayment, SavedPayments } from '../../buyer/payOptions.ts'
import { familyOf } from '../../core/domain/network.ts'
import { isObject, own, parseBody } from '../../core/x402/strictJson.ts'
import { type LockOptions, takeHome } from '../../vault/disk/homeLock.ts'
import { isVaultError } from '../../vault/errors/error.ts'

/**
 * How long the folder of a released lock is kept, in ms. It is kept because a process that has read the folder may be about to
 * take the lock.
 */
const KEEP_MS = 7 * 86_400_000

/** Maximum size of a payment file that is read, in bytes. A request body of a few megabytes fits into it in base64. */
const MAX_FILE_BYTES = 16_000_000

/** Stores payments as files in one folder. The locks of commands, and the payment channels, are in folders beside it. */
export const createPaymentFiles = (dir: string): SavedPayments => ({
  idOf: idOfCommand,
  lock: (commandId) => lockCommand(dir, commandId),
  find: (commandId) => findPayments(dir, commandId),
  save: (commandId, payment) => savePayment(dir, commandId, payment),
  load: loadPayment,
  remove: removeFile,
  findChannel: (id) => loadChannel(channelPath(dir, id)),
  listChannels: () => listChannels(dir),
  saveChannel: (record) => writeWhole(channelPath(dir, record.id), `${JSON.stringify(record, null, 2)}\n`),
  keepOrderKey: (commandId, order) => keepOrderKey(dir, commandId, order),
  dropOrderKey: (commandId) => removeFile(orderPath(dir, commandId)),
})

/** Prefix of a command's file names. It is a hash, so it reveals nothing about the command. */
const idOfCommand = ({ url, method, body = new Uint8Array() }: Command): string =>
  createHash('sha256')
    .update(JSON.stringify([method, url.href, createHash('sha256').update(body).digest('hex')]))
    .digest('hex')
    .slice(0, 32)

/**
 * Writes a payment to disk and syncs it before the payment is sent. After a crash, the next run sends the same payment again
 * instead of signing a second one. The file is worth the payment's amount and may contain the user's headers, so only the user
 * can read it. The file appears complete or not at all, because every file counts as a payment that may have been sent.
 *
 * @returns path of the file
 */
async function savePayment(dir: string, commandId: string, file: SavedPayment): Promise<string> {
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
  // A file name is durable only when its folder is synced.
  const folder = await open(dir, 'r')
  await folder.sync().finally(() => folder.close())
}

/**
 * The stored payments of a command, newest first.
 *
 * @throws {UsageError} if the folder cannot be read
 */
async function findPayments(dir: string, commandId: string): Promise<string[]> {
  const names = await filesIn(dir)
  return names
    .filter((name) => name.startsWith(`${commandId}-`))
    .sort()
    .reverse()
    .map((name) => join(dir, name))
}

/** Names of the complete files in a folder. @throws {UsageError} if it cannot be read */
async function filesIn(dir: string): Promise<string[]> {
  const names = await readdir(dir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return []
    throw new UsageError(`The payment folder ${dir} cannot be read (${error.code ?? 'unknown'}).`)
  })
  return names.filter((name) => name.endsWith('.json'))
}

/**
 * The Idempotency-Key with which a vault is asked for the payment of this offer. If a run was killed, the next run uses the
 * same key. The vault then returns the payment that it signed, and its owner is not asked twice.
 *
 * @param order a different order gets a different key
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

const channelPath = (dir: string, id: string): string => join(`${dir}-channels`, `${id}.json`)

async function listChannels(dir: string): Promise<ChannelRecord[]> {
  const folder = `${dir}-channels`
  const records = (await filesIn(folder)).map((name) => loadChannel(join(folder, name)))
  return (await Promise.all(records)).filter((record) => record !== undefined)
}

async function loadChannel(path: string): Promise<ChannelRecord | undefined> {
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw new UsageError(`The record of a payment channel at ${path} cannot be read (${error.code}).`)
  })
  if (bytes === undefined) return undefined
  const parsed = parseBody(bytes)
  return readRecord(parsed.ok ? parsed.value : undefined, path)
}

/** Reads a payment file. @throws {UsageError} if the file is not a payment file, or if other users can read or write it */
async function loadPayment(path: string): Promise<SavedPayment> {
  const info = await lstat(path).catch(() => undefined)
  if (info === undefined || !info.isFile())
    throw new UsageError(`Expected a payment file at ${path}, found none.`)
  if ((info.mode & 0o077) !== 0)
    throw new UsageError(`Other users can access the payment file ${path}. Run chmod 600 on the file first.`)
  if (info.size > MAX_FILE_BYTES) throw new UsageError(`The file ${path} is too large to be a payment file.`)
  const parsed = parseBody(await readFile(path))
  if (!parsed.ok || !isPaymentFile(parsed.value))
    throw new UsageError(`The file ${path} is not a payment file, or it is damaged.`)
  return parsed.value
}

const removeFile = (path: string): Promise<void> => rm(path, { force: true })

function isPaymentFile(value: unknown): value is SavedPayment {
  if (!isObject(value) || value['tollgatePayment'] !== 1) return false
  const { payment, headers } = value
  const texts = [value['url'], value['method'], value['paymentHeader'], value['createdAt']]
  if (!isObject(payment) || !isObject(payment['payload']) || !isObject(value['summary'])) return false
  const parts = [
    payment['scheme'],
    payment['network'],
    payment['asset'],
    payment['amount'],
    payment['payTo'],
    payment['payer'],
  ]
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
 * Locks a command for this run, so that two concurrent runs do not both sign a payment. If a run is killed, its lock becomes
 * free. The locks have a folder of their own, because the payment folder contains only payments to resume.
 *
 * @param commandId from {@link import('../../buyer/payOptions.ts').SavedPayments.idOf}
 * @returns undefined while another run holds the lock
 * @throws file system errors
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
