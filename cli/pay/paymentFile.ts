import { createHash, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { SignedPayment } from '../../adapters/chains/buyer/buyer.ts'
import { familyOf } from '../../core/domain/network.ts'
import { isObject, own } from '../../core/x402/own.ts'
import { parseBody } from './parseBody.ts'
import type { PaymentSummary } from './payReport.ts'
import { UsageError } from './usageError.ts'

/** Largest file that is read back: a request body of a few megabytes in base64. */
const MAX_FILE_BYTES = 16_000_000

/** A signed payment and the call that it is for; all that a later run needs, and no key. */
export interface PaymentFile {
  readonly tollgatePayment: 1
  readonly createdAt: string
  readonly url: string
  readonly method: string
  /** Flat list of name, value: the user's own headers. */
  readonly headers: readonly string[]
  /** Base64; null for no body. */
  readonly body: string | null
  /** Value of `PAYMENT-SIGNATURE`, sent again as it is. */
  readonly paymentHeader: string
  readonly payment: SignedPayment
  readonly summary: PaymentSummary
}

/** What makes two runs the same purchase: the options of how to pay for it do not. */
export interface Command {
  readonly url: URL
  readonly method: string
  readonly body: Uint8Array | undefined
}

/** Names the files of a command; says nothing of what is in it. */
export const idOfCommand = ({ url, method, body = new Uint8Array() }: Command): string =>
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
export async function savePayment(dir: string, commandId: string, file: PaymentFile): Promise<string> {
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
export async function findPayments(dir: string, commandId: string): Promise<string[]> {
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
export async function keepOrderKey(dir: string, commandId: string, order: unknown): Promise<string> {
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

/** The order is over: its payment is kept, or there will be none. */
export const dropOrderKey = (dir: string, commandId: string): Promise<void> =>
  removePayment(orderPath(dir, commandId))

const orderPath = (dir: string, commandId: string): string => join(dir, `${commandId}.order`)

/** Reads such a file. @throws {UsageError} when it is not one, or when others may read or write it */
export async function loadPayment(path: string): Promise<PaymentFile> {
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

export const removePayment = (path: string): Promise<void> => rm(path, { force: true })

function isPaymentFile(value: unknown): value is PaymentFile {
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
