import type { PayReport } from '../../buyer/payReport.ts'
import { explorerUrl, networkTitle } from '../../core/domain/network.ts'
import { visibleBlock, visibleJson, visibleText } from '../../core/text/visibleText.ts'
import { parseBody } from '../../core/x402/parseBody.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * A report as one JSON object in one line. The body is JSON (`bodyEncoding` `json`), text (`utf8`) or base64; when it
 * went to a file, it is left out and `savedTo` names the file.
 */
export function reportAsJson(report: PayReport, exitCode: number, savedTo: string | null): string {
  const { outcome, answer, ...rest } = report
  const body = answer === null || savedTo !== null ? {} : bodyOf(answer.body)
  return visibleJson({
    outcome,
    exitCode,
    ...rest,
    explorer: explorerOf(report),
    answer: answer && {
      status: answer.status,
      contentType: answer.contentType,
      location: answer.location,
      bytes: answer.body.length,
      isComplete: answer.isComplete,
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

/** The lines about a report for a person, without the body. Nothing in them can control a terminal. */
export function reportAsText(report: PayReport): string {
  const { payment } = report
  const rows: [string, string | null][] = [
    ['', report.message],
    [
      'paid',
      payment && report.attempts > 0 ? `${payment.amount} ${payment.symbol} (${payment.usd} USD)` : null,
    ],
    ['at', payment && report.url],
    ['for', payment?.description || null],
    ['on', payment && networkTitle(payment.network)],
    ['from', payment?.payer ?? null],
    ['to', payment?.payTo ?? null],
    ['location', payment && (report.answer?.location ?? null)],
    ['receipt', report.transaction],
    ['verified', payment && (report.isVerified ? 'yes, by the chain' : 'no')],
    ['see', explorerOf(report)],
    ['resume', report.stateFile === null ? null : `tollgate pay --resume ${report.stateFile}`],
    ...report.warnings.map((warning): [string, string] => ['warning', warning]),
  ]
  return rows
    .filter((row): row is [string, string] => row[1] !== null)
    .map(([name, value]) => visibleText(name === '' ? value : `  ${name.padEnd(9)}${value}`))
    .join('\n')
}

/** The body for a terminal: safe text, or a line that says what it is. */
export function bodyAsText(body: Uint8Array, contentType: string): string {
  try {
    return visibleBlock(utf8.decode(body))
  } catch {
    return visibleText(`(${body.length} bytes of ${contentType || 'unknown type'}; --output FILE keeps them)`)
  }
}

const explorerOf = ({ payment, transaction }: PayReport): string | null =>
  payment == null || transaction === null ? null : (explorerUrl(payment.network, transaction) ?? null)
