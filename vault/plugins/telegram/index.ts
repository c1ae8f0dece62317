import { readFileSync, statSync } from 'node:fs'
import { vaultPlugin } from '../../../core/plugin/vault.ts'
import { createAnswers } from './answers.ts'
import { createBackoff } from './backoff.ts'
import { createChat } from './chat.ts'
import { failureOf } from './failure.ts'
import { createMessages } from './messages.ts'
import { options } from './options.ts'
import { createOutbox } from './outbox.ts'

/** What a call that is under way gets when the vault closes. */
const FAREWELL_MS = 1_000

/**
 * Asks the owner in a Telegram chat, and takes the answer there: another way to the same questions as the approvals page,
 * bound to the same decision hash. It takes part in no request, so whatever Telegram does delays none.
 */
export default vaultPlugin({
  name: 'telegram',
  api: 1,
  options,
  needs: ['approvals', 'egress', 'store', 'clock', 'log'],
  setup(given, { ports: { approvals: desk, egress, store, clock, log } }) {
    const { botToken, botTokenFile, chatId, userIds, lockNotices, retryMinMs, retryMaxMs } = given
    const token = readToken(botToken, botTokenFile)
    if (chatId < 0 && userIds.length === 0)
      throw new Error(
        'Expected userIds beside the chatId of a group: everybody in it could answer otherwise.',
      )
    if (chatId === 0) throw new Error('Expected the id of a chat as chatId, got 0.')

    const closing = new AbortController()
    const ending = new AbortController()
    const { signal } = closing
    const backoff = () => createBackoff(retryMinMs, retryMaxMs)
    const chat = createChat({ ...given, token }, egress, () => messages.moved(), signal, ending.signal)
    const outbox = createOutbox({ backoff: backoff(), signal, log })
    const messages = createMessages({ chatId, desk, store, chat, outbox, clock, log })
    const answers = createAnswers({ desk, chat, messages, chatId, userIds, clock, log })
    const stops: (() => void)[] = []
    let running: Promise<unknown> = Promise.resolve()

    /** Listens to the chat until the end; says once when it fails in another way than before. */
    async function listen(): Promise<void> {
      const retry = backoff()
      let failing: unknown
      while (!signal.aborted) {
        try {
          const received = await chat.receive()
          if (failing !== undefined) log.info({}, 'the chat is heard again')
          failing = undefined
          retry.reset()
          for (const incoming of received) await answers(incoming)
        } catch (error) {
          if (signal.aborted) return
          const failure = failureOf(error)
          const { code, message } = failure
          if (failing !== code) log.warn({ code, reason: message }, adviceFor(code))
          failing = code
          await retry.wait(failure, signal)
        }
      }
    }

    function lockChanged(isLocked: boolean): void {
      if (!isLocked) messages.sync()
      else if (lockNotices)
        outbox.put('lock', async () => {
          if (desk.isLocked()) await chat.say('🔒 The vault is locked. Questions wait until it is unlocked.')
        })
    }

    return {
      route: () => undefined,
      start() {
        stops.push(desk.watch(messages.changed), desk.watchLock(lockChanged))
        messages.sync()
        running = Promise.all([outbox.run(), listen()]).catch((error: unknown) => {
          const { code, message } = failureOf(error)
          log.error({ code, reason: message }, 'the chat is given up until the vault is started again')
        })
      },
      async close() {
        for (const stop of stops.splice(0)) stop()
        closing.abort()
        // What is being said is said to its end, so that it is known to have been said.
        const late = setTimeout(() => ending.abort(), FAREWELL_MS)
        await running
        clearTimeout(late)
      },
    }
  },
})

const adviceFor = (code: number | string): string => {
  if (code === 401 || code === 404) return 'the Bot API does not know this bot: is its token right?'
  if (code === 'VALIDATION_ERROR') return 'apiRoot is no public address: allow its range in pluginEgress'
  if (code === 409)
    return 'another program reads the messages of this bot, or it has a webhook: one bot, one vault'
  return 'the chat can not be heard'
}

const form = /^[0-9]{3,20}:[A-Za-z0-9_-]{20,100}$/

/**
 * The bot's token. Whoever has it reads every question and may answer as the bot, so it is in no message.
 *
 * @throws {Error} when there is none or two of them, or the file is none or may be read by others
 */
function readToken(botToken: string | undefined, botTokenFile: string | undefined): string {
  if ((botToken === undefined) === (botTokenFile === undefined))
    throw new Error('Expected either botToken or botTokenFile.')
  if (botTokenFile === undefined) return botToken!
  let text: string
  try {
    if ((statSync(botTokenFile).mode & 0o077) !== 0)
      throw new Error(`Others may read ${botTokenFile}; give it mode 0600.`)
    text = readFileSync(botTokenFile, 'utf8').trim()
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === undefined) throw cause
    throw new Error(`Can't read botTokenFile ${botTokenFile}: ${code}.`)
  }
  if (form.test(text)) return text
  throw new Error(`Expected the token of a Telegram bot in ${botTokenFile}, such as 123456789:AA….`)
}
