import { readFileSync, statSync } from 'node:fs'

const form = /^[0-9]{3,20}:[A-Za-z0-9_-]{20,100}$/

/**
 * The bot's token. Whoever has it reads every question and may answer as the bot, so it is in no message.
 *
 * @throws {Error} when there is none or two of them, or the file is none or may be read by others
 */
export function readToken(botToken: string | undefined, botTokenFile: string | undefined): string {
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
