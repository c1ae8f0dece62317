import { randomBytes } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { UsageError } from '../../buyer/buyer.ts'
import type { ChannelSummary, PaymentSummary, PayReport } from '../../buyer/payReport.ts'
import { channelScheme } from '../../core/domain/channel.ts'
import { explorerUrl, networkTitle } from '../../core/domain/network.ts'
import { visibleBlock, visibleJson, visibleText } from '../../core/text/visibleText.ts'
import { parseBody } from '../../core/x402/strictJson.ts'

export interface OutputFile {
  /** Writes all of the bytes to the path, or nothing. */
  keep(body: Uint8Array): Promise<void>
  /** Discards the temporary file and leaves the path unchanged. */
  drop(): Promise<void>
}

/**
 * Checks before the payment that the response can be written. It opens a temporary file beside the path. The temporary file
 * replaces a file at the path only when the response is complete.
 *
 * @throws {UsageError} if the location is not writable
 */
export async function openOutput(path: string): Promise<OutputFile> {
  const part = `${path}.${randomBytes(4).toString('hex')}.part`
  const handle = await open(part, 'wx', 0o600).catch(() => {
    throw new UsageError('The output file cannot be written there.')
  })
  const drop = async (): Promise<void> => {
    await handle.close().catch(() => undefined)
    await rm(part, { force: true })
  }
  return {
    async keep(body) {
      try {
        await handle.writeFile(body)
        await handle.sync()
        await handle.close()
        await rename(part, path)
      } catch (error) {
        await drop()
        throw error
      }
    },
    drop,
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * A report as one JSON object on one line. The body is JSON (`bodyEncoding` `json`), text (`utf8`) or base64. If the body was
 * written to a file, the object has the file as `savedTo` instead of the body.
 */
export function reportAsJson(report: PayReport, exitCode: number, savedTo: string | null): string {
  const { outcome, response, ...rest } = report
  const body = response === null || savedTo !== null ? {} : bodyOf(response.body)
  return visibleJson({
    outcome,
    exitCode,
    ...rest,
    explorer: explorerOf(report),
    response: response && {
      status: response.status,
      contentType: response.contentType,
      location: response.location,
      bytes: response.body.length,
      isComplete: response.isComplete,
      ...body,
      savedTo,
    },
  })
}

function bodyOf(body: Uint8Array): { bodyEncoding: string; body: unknown } {
  const json = parseBody(body)
  if (json.ok) return { bodyEncoding: 'json', body: json.value }
  try {
    return { bodyEncoding: 'utf8', body: utf8.decode(body) }
  } catch {
    return { bodyEncoding: 'base64', body: Buffer.from(body).toString('base64') }
  }
}

/** A report as text for a person, without the body. The text contains no terminal control characters. */
export function reportAsText(report: PayReport): string {
  const { payment } = report
  const rows: [string, string | null][] = [
    ['', report.message],
    ['paid', payment && report.attempts > 0 ? amountOf(report, payment) : null],
    ['at', payment && report.url],
    ['for', payment?.description || null],
    ['on', payment && networkTitle(payment.network)],
    ['from', payment?.payer ?? null],
    ['to', payment?.payTo ?? null],
    ['location', payment && (report.response?.location ?? null)],
    ['receipt', report.transaction],
    ['verified', payment && (report.isVerified ? verifiedBy(payment) : 'no')],
    ['left', report.channel && leftOf(report.channel, payment)],
    ['see', explorerOf(report)],
    ['resume', report.stateFile === null ? null : `tollgate pay --resume ${report.stateFile}`],
    ...report.warnings.map((warning): [string, string] => ['warning', warning]),
  ]
  return rows
    .filter((row): row is [string, string] => row[1] !== null)
    .map(([name, value]) => visibleText(name === '' ? value : `  ${name.padEnd(9)}${value}`))
    .join('\n')
}

const verifiedBy = ({ scheme }: PaymentSummary): string =>
  scheme === channelScheme ? "yes, by the channel's vouchers" : 'yes, by the chain'

const leftOf = ({ left, id }: ChannelSummary, payment: PaymentSummary | null): string =>
  `${left} ${payment?.symbol ?? ''} in the channel ${id} (--refund-channel gets it back)`

/** The amount of a payment that was sent. In scheme `upto`, also what the chain shows as charged. */
function amountOf({ chargedAmount }: PayReport, { scheme, amount, symbol, usd }: PaymentSummary): string {
  const signed = `${amount} ${symbol} (${usd} USD)`
  if (scheme !== 'upto') return signed
  return `${chargedAmount === null ? '' : `${chargedAmount} ${symbol} of `}at most ${signed}`
}

/** The body as safe text for a terminal, or a line that describes it. */
export function bodyAsText(body: Uint8Array, contentType: string): string {
  try {
    return visibleBlock(utf8.decode(body))
  } catch {
    return visibleText(`(${body.length} bytes of ${contentType || 'unknown type'}; --output FILE keeps them)`)
  }
}

const explorerOf = ({ payment, transaction }: PayReport): string | null =>
  payment == null || transaction === null ? null : (explorerUrl(payment.network, transaction) ?? null)
