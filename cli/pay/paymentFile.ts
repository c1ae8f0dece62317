import { randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { SignedPayment } from '../../adapters/chains/buyer/buyer.ts'
import { familyOf } from '../../core/domain/network.ts'
import { isObject } from '../../core/x402/own.ts'
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

/**
 * Writes a payment to disk, synced, before it is sent: after a crash the same payment can be sent again, and no second
 * one needs to be signed. The file is as good as the money and may hold the user's headers, so only the owner reads it.
 *
 * @returns the file's path
 */
export async function savePayment(dir: string, file: PaymentFile): Promise<string> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  await chmod(dir, 0o700)
  const name = `${file.createdAt.replace(/[-:]|\.\d+/g, '')}-${randomBytes(4).toString('hex')}.json`
  const path = join(dir, name)
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(`${JSON.stringify(file, null, 2)}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  return path
}

/** Reads such a file. @throws {UsageError} when it is not one, or when others may read or write it */
export async function loadPayment(path: string): Promise<PaymentFile> {
  const info = await lstat(path).catch(() => undefined)
  if (info === undefined || !info.isFile())
    throw new UsageError('Expected --resume to name a file of a payment.')
  if ((info.mode & 0o077) !== 0)
    throw new UsageError('The payment file is open to others; chmod 600 it first.')
  if (info.size > MAX_FILE_BYTES) throw new UsageError('The payment file is too long to be one.')
  const parsed = parseBody(await readFile(path))
  if (!parsed.ok || !isPaymentFile(parsed.value))
    throw new UsageError('The file is not a payment that was saved here.')
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
