import { homedir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { UsageError } from '../../buyer/buyer.ts'
import { refundChannel } from '../../buyer/channels/refundChannel.ts'
import { payForUrl } from '../../buyer/payForUrl.ts'
import { most } from '../../buyer/payOffer.ts'
import type { PayOptions, PriceConfirmation } from '../../buyer/payOptions.ts'
import type { PayReport } from '../../buyer/payReport.ts'
import { resumePayment } from '../../buyer/resumePayment.ts'
import { loadVaultWallets } from '../../buyer/vault/loadVaultWallets.ts'
import { visibleJson, visibleText } from '../../core/text/visibleText.ts'
import { exitCodeOf, exitCodes } from './exitCodes.ts'
import { loadWallets } from './loadWallets.ts'
import { checkPayment, openVaultClient } from './openVault.ts'
import { createPaymentFiles } from './paymentFiles.ts'
import { bodyAsText, type OutputFile, openOutput, reportAsJson, reportAsText } from './printReport.ts'
import {
  guessContentType,
  readByteLimit,
  readDeposit,
  readHeaders,
  readMethod,
  readNetwork,
  readRequestBody,
  readRpcUrl,
  readSeconds,
  readUsd,
} from './readFlags.ts'

/** The command-line options, as commander passes them. */
export interface PayFlags {
  readonly network?: string
  readonly max?: string
  readonly yes?: boolean
  readonly json?: boolean
  readonly method?: string
  readonly body?: string
  readonly header?: readonly string[]
  readonly keyFile?: string
  readonly vault?: string
  readonly vaultTokenFile?: string
  readonly rpc?: string
  readonly output?: string
  readonly receipt?: string
  readonly timeout?: string
  readonly maxBody?: string
  readonly insecureHttp?: boolean
  readonly resume?: string
  readonly again?: boolean
  readonly signIn?: boolean
  readonly deposit?: string
  readonly refundChannel?: boolean
}

/** The process, or its replacement in a test. */
export interface PayIo {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean }
  readonly stdout: NodeJS.WritableStream & { readonly isTTY?: boolean }
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean }
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted by Ctrl-C. */
  readonly signal?: AbortSignal
  /** Shorter delays for tests. */
  readonly pace?: Pick<PayOptions, 'retryDelaysMs' | 'chainWaitMs'>
}

/**
 * Runs `tollgate pay` and returns the exit code. Prints results, and throws only for faults of this program.
 */
export async function runPay(target: string | undefined, flags: PayFlags, io: PayIo): Promise<number> {
  const isJson = flags.json === true || io.stdout.isTTY !== true
  let output: OutputFile | undefined
  let receiptFile: OutputFile | undefined
  let isTried = false
  let exitCode: number | undefined
  const deliver = async (report: PayReport): Promise<void> => {
    const kept = await keepReceipt(await keepBody(report, output, flags.output), receiptFile, flags.receipt)
    output = receiptFile = undefined
    isTried = true
    await print(kept, isJson, io)
    exitCode = kept.exitCode
  }
  try {
    const start = await prepare(target, flags, io, deliver)
    output = flags.output === undefined ? undefined : await openOutput(flags.output)
    receiptFile = flags.receipt === undefined ? undefined : await openOutput(flags.receipt)
    const report = await start()
    if (!isTried) await deliver(report).catch(() => undefined)
    // If stdout is closed or full, the outcome of the payment must still be reported.
    if (exitCode === undefined) io.stderr.write(`${reportAsText(report)}\n`)
    return exitCode ?? (exitCodeOf[report.outcome] || exitCodes.internal)
  } catch (error) {
    await output?.drop()
    await receiptFile?.drop()
    if (!(error instanceof UsageError)) throw error
    if (isJson)
      io.stdout.write(
        `${visibleJson({ outcome: 'usage', exitCode: exitCodes.usage, message: error.message })}\n`,
      )
    io.stderr.write(`${visibleText(error.message)}\n`)
    return exitCodes.usage
  }
}

/** Reads every option before any request is sent. @throws {UsageError} */
async function prepare(
  target: string | undefined,
  flags: PayFlags,
  io: PayIo,
  deliver: (report: PayReport) => Promise<void>,
): Promise<() => Promise<PayReport>> {
  const common = {
    payments: createPaymentFiles(join(io.env['TOLLGATE_HOME'] || join(homedir(), '.tollgate'), 'payments')),
    deliver,
    ...io.pace,
    ...(flags.rpc !== undefined && { rpcUrl: readRpcUrl(flags.rpc) }),
    ...(flags.timeout !== undefined && { timeoutMs: readSeconds(flags.timeout) }),
    ...(flags.maxBody !== undefined && { maxBodyBytes: readByteLimit(flags.maxBody) }),
    ...(io.signal !== undefined && { signal: io.signal }),
    allowInsecureHttp: flags.insecureHttp === true,
    onStep: (text: string) => void io.stderr.write(`${visibleText(text)}\n`),
  }
  if (flags.resume !== undefined) {
    if (target !== undefined) throw new UsageError('Expected an address or --resume, got both.')
    if (flags.again === true) throw new UsageError('Expected --again or --resume, got both.')
    const file = flags.resume
    return () => resumePayment(file, common)
  }
  if (target === undefined) throw new UsageError('Expected an address to pay, or --resume FILE.')
  const body = flags.body === undefined ? undefined : await readRequestBody(flags.body)
  const options: Omit<PayOptions, 'wallets'> = {
    ...common,
    url: target,
    method: readMethod(flags.method ?? (body === undefined ? 'GET' : 'POST')),
    headers: headersOf(flags, body),
    ...(body !== undefined && { body }),
    again: flags.again === true,
    signIn: flags.signIn === true,
    ...(flags.network !== undefined && { network: readNetwork(flags.network) }),
    ...(flags.deposit !== undefined && { deposit: readDeposit(flags.deposit) }),
    ...(flags.max !== undefined && { maxUsd: readUsd(flags.max) }),
    confirm: (question, signal) => confirm(question, flags, io, signal),
  }
  const wallets = await walletSource(flags, io, options)
  if (flags.refundChannel === true) return () => refundChannel({ ...options, wallets })
  return () => payForUrl({ ...options, wallets })
}

/** Creates the wallets of a run. Keys are read now. A vault is contacted only when the run begins. @throws {UsageError} */
async function walletSource(
  flags: PayFlags,
  io: PayIo,
  { network, rpcUrl, signal, onStep }: Omit<PayOptions, 'wallets'>,
): Promise<PayOptions['wallets']> {
  const { vault, vaultTokenFile: tokenFile, keyFile } = flags
  const rpc = rpcUrl === undefined ? {} : { rpcUrl }
  if (vault === undefined) {
    if (tokenFile !== undefined) throw new UsageError('--vault-token-file works only with --vault.')
    return await loadWallets({ env: io.env, ...(keyFile !== undefined && { keyFile }), ...rpc })
  }
  if (keyFile !== undefined) throw new UsageError('Expected --vault or --key-file, got both.')
  const callVault = await openVaultClient({
    vault,
    env: io.env,
    ...(tokenFile !== undefined && { tokenFile }),
  })
  return () =>
    loadVaultWallets(callVault, {
      ...rpc,
      ...(network !== undefined && { network }),
      check: checkPayment,
      signal: signal ?? new AbortController().signal,
      onStep: onStep!,
    })
}

function headersOf(flags: PayFlags, body: Uint8Array | undefined): string[] {
  const headers = readHeaders(flags.header ?? [])
  const names = headers.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase())
  if (!names.includes('accept')) headers.push('Accept', '*/*')
  if (!names.includes('user-agent')) headers.push('User-Agent', 'tollgate-pay')
  if (body !== undefined && !names.includes('content-type'))
    headers.push('Content-Type', guessContentType(body))
  return headers
}

/**
 * Confirms a price above the cap. With `--yes`, a price up to ten times the cap is confirmed, and a message states it.
 * Otherwise only a person at a terminal can confirm.
 */
async function confirm(
  question: PriceConfirmation,
  flags: PayFlags,
  io: PayIo,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (flags.yes === true && question.isWithinTenfold) {
    const { usd, capUsd } = question
    io.stderr.write(
      `The price of ${most(question)}${usd} USD is above the cap of ${capUsd} USD. Paying because of --yes.\n`,
    )
    return true
  }
  if (io.stdin.isTTY !== true || io.stderr.isTTY !== true) return false
  return await askOnTerminal(question, io, signal)
}

/** A report and where it is printed. */
interface Printed {
  readonly report: PayReport
  readonly exitCode: number
  readonly savedTo: string | null
}

/** Writes the body to the file if the body was paid for or free. If writing fails, the report still contains the body. */
async function keepBody(report: PayReport, output: OutputFile | undefined, path = ''): Promise<Printed> {
  const exitCode = exitCodeOf[report.outcome]
  if (output === undefined) return { report, exitCode, savedTo: null }
  const { response, warnings } = report
  if (response === null || response.status < 200 || response.status >= 300) {
    await output.drop()
    return { report, exitCode, savedTo: null }
  }
  try {
    await output.keep(response.body)
    return { report, exitCode, savedTo: path }
  } catch (error) {
    const warning = `The output file could not be written (${(error as NodeJS.ErrnoException).code ?? 'unknown'}).`
    return {
      report: { ...report, warnings: [...warnings, warning] },
      exitCode: exitCode || exitCodes.internal,
      savedTo: null,
    }
  }
}

/** Writes the signed receipt to the file. A missing receipt or file is only a warning, because the call is paid. */
async function keepReceipt(printed: Printed, file: OutputFile | undefined, path = ''): Promise<Printed> {
  if (file === undefined) return printed
  const { report } = printed
  const warned = (warning: string) => ({
    ...printed,
    report: { ...report, warnings: [...report.warnings, warning] },
  })
  if (report.signedReceipt === null) {
    await file.drop()
    return report.outcome === 'paid' ? warned('The seller sent no signed receipt that is valid.') : printed
  }
  try {
    await file.keep(Buffer.from(`${JSON.stringify(report.signedReceipt, null, 2)}\n`))
    return printed
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown'
    return warned(`The receipt could not be written to ${path} (${code}).`)
  }
}

async function print(
  { report, exitCode, savedTo }: Printed,
  isJson: boolean,
  { stdout, stderr }: PayIo,
): Promise<void> {
  if (isJson) return await write(stdout, `${reportAsJson(report, exitCode, savedTo)}\n`)
  const { response } = report
  if (response !== null && savedTo === null)
    await write(stdout, `${bodyAsText(response.body, response.contentType)}\n`)
  stderr.write(`${reportAsText(report)}\n`)
  if (savedTo !== null) stderr.write(visibleText(`  saved    ${savedTo}`).concat('\n'))
}

/**
 * Waits until the operating system has accepted the text.
 * @throws the system's error if the reading process has ended or the disk is full
 */
async function write(stream: NodeJS.WritableStream, text: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    // The stream also emits the failure as an event, which would end the process without a listener.
    stream.on('error', reject)
    stream.write(text, (error) => (error ? reject(error) : resolve()))
  })
}

/**
 * Asks a person whether to pay a price above the cap. Only `y` or `yes` confirms. Other input, the end of
 * input and an interrupt do not confirm.
 */
async function askOnTerminal(
  question: PriceConfirmation,
  io: { readonly stdin: NodeJS.ReadableStream; readonly stderr: NodeJS.WritableStream },
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { usd, capUsd, amount, symbol, network, payTo, url } = question
  const lines = readlines(io)
  const text = `The price is ${most(question)}${usd} USD, above the cap of ${capUsd} USD. Pay ${most(question)}${amount} ${symbol} on ${network} to ${payTo} for ${url}? [y/N] `
  try {
    const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
    const asked = lines.question(visibleText(text), signal === undefined ? {} : { signal })
    const response = await Promise.race([asked, ended])
    return /^y(es)?$/i.test(response.trim())
  } catch {
    return false
  } finally {
    lines.close()
  }
}

const readlines = (io: { readonly stdin: NodeJS.ReadableStream; readonly stderr: NodeJS.WritableStream }) =>
  createInterface({ input: io.stdin, output: io.stderr })
