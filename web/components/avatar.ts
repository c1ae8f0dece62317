import { html } from '../html.ts'

export interface AvatarProps {
  /** Whose: its first letter stands there where there is no picture. */
  readonly name: string
  readonly url?: string
  readonly isBig?: boolean
}

/**
 * A store's picture above the first letter of its name, which stands there while it loads and where it is gone:
 * `startIslands` hides a picture that did not load.
 */
export function Avatar({ name, url = '', isBig = false }: AvatarProps) {
  const classes = isBig ? 'avatar big' : 'avatar'
  const [size, letter] = [isBig ? 72 : 32, [...name.trim()][0]?.toUpperCase() ?? '?']
  return html`<span class=${classes} aria-hidden="true">${letter}${
    url !== '' &&
    html`<img key=${url} src=${url} alt="" width=${size} height=${size} loading="lazy" referrerpolicy="no-referrer" />`
  }</span>`
}
