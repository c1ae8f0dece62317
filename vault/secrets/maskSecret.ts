const mask = '[secret]'

/**
 * Removes a secret from bytes that somebody else wrote, in every spelling that an honest server would echo it in: as it
 * is, as JSON, percent-encoded, in HTML, as hex, and as base64 (both alphabets) at any place inside of longer base64. A
 * server that wants to smuggle it out can; the rules say which servers get it.
 *
 * @param secrets the stored text and whatever was made of it, such as `user:password` in base64
 * @returns text of latin1, one character a byte
 */
export function createMask(secrets: readonly string[]): (latin1: string) => string {
  const spellings = new Set(secrets.flatMap(spellingsOf))
  spellings.delete('')
  if (spellings.size === 0) return (text) => text
  // The longest first: a shorter one inside of it would leave the rest behind.
  const sorted = [...spellings].sort((a, b) => b.length - a.length)
  const pattern = new RegExp(sorted.map((text) => escapeForRegExp(text)).join('|'), 'gi')
  return (text) => text.replace(pattern, mask)
}

const escapeForRegExp = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&')

function spellingsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const raw = [
    secret,
    encodeURIComponent(secret),
    encodeURIComponent(secret).replaceAll('%20', '+'),
    [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
    JSON.stringify(secret).slice(1, -1),
    JSON.stringify(secret).slice(1, -1).replaceAll('/', '\\/'),
    [...secret].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
    inHtml(secret),
    Buffer.from(secret, 'utf16le').toString('latin1'),
  ].map((text, i, all) => (i === all.length - 1 ? text : Buffer.from(text, 'utf8').toString('latin1')))
  const encoded = [bytes.toString('hex'), ...base64Spellings(bytes)]
  return [...raw, ...encoded]
}

const inHtml = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')

/** Base64 depends on where the secret stands among the bytes before it: three places, and what they all determine. */
function base64Spellings(bytes: Buffer): string[] {
  // Of a shorter secret hardly anything is determined, and everything would look like it.
  if (bytes.length < 4) return [bytes.toString('base64'), bytes.toString('base64url')]
  return [0, 1, 2].flatMap((shift) => {
    const whole = Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .replaceAll('=', '')
    const first = Math.ceil((shift * 8) / 6)
    const last = Math.floor(((shift + bytes.length) * 8) / 6)
    const sure = whole.slice(first, last)
    return [sure, sure.replaceAll('+', '-').replaceAll('/', '_'), encodeURIComponent(sure)]
  })
}
