import { createInterface } from 'node:readline/promises'
import type { CapQuestion } from '../../buyer/payOptions.ts'
import { visibleText } from '../../core/text/visibleText.ts'

/**
 * Asks a person whether to pay a price above the cap. Only `y` or `yes` agrees; anything else, the end of input and an
 * interrupt do not.
 */
export async function askOnTerminal(
  question: CapQuestion,
  io: { readonly stdin: NodeJS.ReadableStream; readonly stderr: NodeJS.WritableStream },
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { usd, capUsd, amount, symbol, network, payTo, url } = question
  const lines = readlines(io)
  const text = `The price is ${usd} USD, above the cap of ${capUsd} USD. Pay ${amount} ${symbol} on ${network} to ${payTo} for ${url}? [y/N] `
  try {
    const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
    const asked = lines.question(visibleText(text), signal === undefined ? {} : { signal })
    const answer = await Promise.race([asked, ended])
    return /^y(es)?$/i.test(answer.trim())
  } catch {
    return false
  } finally {
    lines.close()
  }
}

const readlines = (io: { readonly stdin: NodeJS.ReadableStream; readonly stderr: NodeJS.WritableStream }) =>
  createInterface({ input: io.stdin, output: io.stderr })
