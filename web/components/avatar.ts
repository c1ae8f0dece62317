import { html } from '../html.ts'

export interface AvatarProps {
  /** Whose: its first letter stands there where there is no picture. */
  readonly name: string
  readonly url?: string
  readonly isBig?: boolean
}

/** A store's picture, or the first letter of its name. */
export function Avatar({ name, url = '', isBig = false }: AvatarProps) {
  const classes = isBig ? 'avatar big' : 'avatar'
  const [size, letter] = [isBig ? 72 : 32, [...name.trim()][0]?.toUpperCase() ?? '?']
  return url === ''
    ? html`<span class=${classes} aria-hidden="true">${letter}</span>`
    : html`<img class=${classes} src=${url} alt="" width=${size} height=${size} loading="lazy" referrerpolicy="no-referrer" />`
}
