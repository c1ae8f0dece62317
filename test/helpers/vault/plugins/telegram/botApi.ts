import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

export const token = '110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw'
/** The owner's private chat with the bot; its id is the owner's own. */
export const ownerId = 4_242

/** How the next call of a method fails: an answer of the Bot API, something that is none, or nothing at all. */
export type Fault =
  | { readonly status: number; readonly description: string; readonly retryAfter?: number }
  | 'not-json'
  | 'hang-up'
  | 'silence'

interface Call {
  readonly method: string
  // biome-ignore lint/suspicious/noExplicitAny: payloads have every shape
  readonly body: any
  readonly atMs: number
}

export interface BotMessage {
  readonly id: number
  readonly chatId: number
  text: string
  entities: readonly { readonly type: string; readonly offset: number; readonly length: number }[]
  buttons: readonly { readonly text: string; readonly callback_data: string }[]
}

export interface PressOptions {
  readonly message?: BotMessage
  readonly from?: number
  readonly chatId?: number
  /** What the button carries; default: that of the message's button of this name. */
  readonly data?: string
}

/** A server that speaks as much of Telegram's Bot API as the channel uses, and keeps to its limits. */
export interface BotApi {
  readonly url: string
  readonly calls: readonly Call[]
  /** In the order in which they were sent. */
  readonly messages: readonly BotMessage[]
  /** What presses were answered with. */
  readonly responses: readonly { readonly queryId: string; readonly text: string }[]
  callsOf(method: string): readonly Call[]
  /** The next calls of a method fail in these ways, one each. */
  fail(method: string, ...faults: readonly Fault[]): void
  /** A user presses a button. @returns the id of the press */
  press(button: 'Approve' | 'Deny', options?: PressOptions): string
  /** The group becomes another chat: the old one answers with where it went. */
  upgrade(from: number, to: number): void
  write(text: string, options?: { from?: number; chatId?: number }): void
  /** Fulfilled when the condition holds; looked at after every call. */
  until(holds: () => boolean): Promise<void>
  /** What a press was answered with. */
  answered(queryId: string): Promise<string>
  close(): Promise<void>
}

interface Test {
  teardown(work: () => unknown): unknown
}

const limits = { textChars: 4_096, dataBytes: 64, responseChars: 200 }

export async function startBotApi(t: Test): Promise<BotApi> {
  const calls: Call[] = []
  const messages: BotMessage[] = []
  const responses: { queryId: string; text: string }[] = []
  const faults = new Map<string, Fault[]>()
  const upgraded = new Map<number, number>()
  const refuseUpgraded = (chatId: number, res: ServerResponse) =>
    say(res, 400, {
      ok: false,
      error_code: 400,
      description: 'Bad Request: group chat was upgraded to a supergroup chat',
      parameters: { migrate_to_chat_id: upgraded.get(chatId) },
    })
  const happened = new EventEmitter({ captureRejections: false })
  happened.setMaxListeners(0)
  let updates: { update_id: number }[] = []
  let nextId = 1
  let polling: (() => void) | undefined

  const server = createServer((req, res) => {
    handle(req, res).catch((error) => {
      if (!res.headersSent) say(res, 500, { ok: false, error_code: 500, description: String(error) })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const [, given, method = ''] = /^\/bot([^/]+)\/(\w+)$/.exec(req.url!) ?? []
    // biome-ignore lint/suspicious/noExplicitAny: payloads have every shape
    const body = (await json(req)) as any
    calls.push({ method, body, atMs: Date.now() })
    setImmediate(() => happened.emit('call'))
    if (given !== token) return refuse(res, 401, 'Unauthorized')
    const fault = faults.get(method)?.shift()
    if (fault !== undefined) return failWith(res, fault)
    const run = methods[method]
    if (run === undefined) return refuse(res, 404, 'Not Found: method not found')
    await run(body, res)
  }

  // biome-ignore lint/suspicious/noExplicitAny: payloads have every shape
  const methods: Record<string, (body: any, res: ServerResponse) => void | Promise<void>> = {
    sendMessage(body, res) {
      if (upgraded.has(body.chat_id)) return refuseUpgraded(body.chat_id, res)
      const problem = problemOf(body)
      if (problem !== undefined) return refuse(res, 400, problem)
      const message: BotMessage = {
        id: nextId++,
        chatId: body.chat_id,
        text: body.text,
        entities: body.entities ?? [],
        buttons: (body.reply_markup?.inline_keyboard ?? []).flat(),
      }
      messages.push(message)
      say(res, 200, { ok: true, result: { message_id: message.id, date: 1, chat: { id: message.chatId } } })
    },
    editMessageText(body, res) {
      if (upgraded.has(body.chat_id)) return refuseUpgraded(body.chat_id, res)
      const message = messages.find(({ id, chatId }) => id === body.message_id && chatId === body.chat_id)
      const problem = message === undefined ? 'Bad Request: message to edit not found' : problemOf(body)
      if (message === undefined || problem !== undefined) return refuse(res, 400, problem!)
      const buttons = (body.reply_markup?.inline_keyboard ?? []).flat()
      if (message.text === body.text && JSON.stringify(message.buttons) === JSON.stringify(buttons))
        return refuse(res, 400, 'Bad Request: message is not modified: specified new message content')
      Object.assign(message, { text: body.text, entities: body.entities ?? [], buttons })
      say(res, 200, { ok: true, result: true })
    },
    answerCallbackQuery(body, res) {
      if (String(body.text).length > limits.responseChars)
        return refuse(res, 400, 'Bad Request: MESSAGE_TOO_LONG')
      responses.push({ queryId: body.callback_query_id, text: body.text })
      say(res, 200, { ok: true, result: true })
    },
    async getUpdates(body, res) {
      if (polling !== undefined) return refuse(res, 409, 'Conflict: terminated by other getUpdates request')
      updates = updates.filter(({ update_id }) => update_id >= body.offset)
      if (updates.length === 0) {
        const waiting = Promise.withResolvers<void>()
        const timer = setTimeout(waiting.resolve, body.timeout * 1_000)
        polling = waiting.resolve
        res.once('close', waiting.resolve)
        await waiting.promise
        clearTimeout(timer)
        polling = undefined
      }
      say(res, 200, { ok: true, result: updates })
    },
  }

  function deliver(update: object): void {
    updates.push({ update_id: nextId++, ...update })
    polling?.()
  }

  function failWith(res: ServerResponse, fault: Fault): void {
    if (fault === 'silence') return
    if (fault === 'hang-up') return void res.socket?.destroy()
    if (fault === 'not-json') return void res.writeHead(502).end('<html>Bad Gateway</html>')
    const { status, description, retryAfter } = fault
    const parameters = retryAfter === undefined ? undefined : { retry_after: retryAfter }
    say(res, status, { ok: false, error_code: status, description, parameters })
  }

  const api: BotApi = {
    url,
    calls,
    messages,
    responses,
    callsOf: (method) => calls.filter((call) => call.method === method),
    fail(method, ...next) {
      faults.set(method, [...(faults.get(method) ?? []), ...next])
    },
    press(button, { message = messages[0]!, from = ownerId, chatId = message.chatId, data } = {}) {
      const queryId = `query-${nextId++}`
      const carried = data ?? message.buttons.find(({ text }) => text.includes(button))?.callback_data
      deliver({
        callback_query: {
          id: queryId,
          from: { id: from, is_bot: false, first_name: 'x' },
          message: { message_id: message.id, date: 1, chat: { id: chatId } },
          data: carried,
        },
      })
      return queryId
    },
    upgrade: (from, to) => void upgraded.set(from, to),
    write(text, { from = ownerId, chatId = from } = {}) {
      deliver({
        message: { message_id: nextId++, date: 1, chat: { id: chatId }, from: { id: from }, text },
      })
    },
    async until(holds) {
      while (!holds()) await once(happened, 'call')
    },
    async answered(queryId) {
      const mine = () => responses.find((response) => response.queryId === queryId)
      await api.until(() => mine() !== undefined)
      return mine()!.text
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
  t.teardown(() => api.close())
  return api
}

/** What Telegram would not take. */
// biome-ignore lint/suspicious/noExplicitAny: payloads have every shape
function problemOf({ chat_id, text, entities = [], parse_mode, reply_markup }: any): string | undefined {
  if (typeof chat_id !== 'number') return 'Bad Request: chat_id is empty'
  if (typeof text !== 'string' || text === '') return 'Bad Request: message text is empty'
  if (text.length > limits.textChars) return 'Bad Request: message is too long'
  if (parse_mode !== undefined) return 'Bad Request: this stand-in takes no parse_mode'
  for (const { offset, length } of entities)
    if (length < 1 || offset < 0 || offset + length > text.length) return 'Bad Request: ENTITY_BOUNDS_INVALID'
  for (const { callback_data } of (reply_markup?.inline_keyboard ?? []).flat()) {
    const bytes = Buffer.byteLength(callback_data)
    if (bytes < 1 || bytes > limits.dataBytes) return 'Bad Request: BUTTON_DATA_INVALID'
  }
  return undefined
}

const refuse = (res: ServerResponse, code: number, description: string): void =>
  say(res, code, { ok: false, error_code: code, description })

function say(res: ServerResponse, status: number, body: object): void {
  if (!res.destroyed) res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
