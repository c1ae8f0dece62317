import { useState } from 'preact/hooks'
import { Button } from '../components/button.ts'
import { Avatar, Card } from '../components/card.ts'
import { showToast } from '../components/dialog.ts'
import { Field } from '../components/field.ts'
import { html } from '../html.ts'
import { addressWords, type FormWords, useForm } from '../shell/form.ts'
import { useAction } from '../shell/load.ts'
import { useSeller } from './seller.ts'
import type { ProfileResponse } from './types.ts'

const MAX_BYTES = 1_048_576
/** Maximum width and height, in pixels. */
const MAX_SIDE = 4_096
const types = ['image/png', 'image/jpeg', 'image/webp', 'image/gif']

export interface ImageProps {
  readonly profile: ProfileResponse
  readonly onChanged: (profile: ProfileResponse) => void
}

const words: FormWords = {
  file: {},
  avatarUrl: addressWords('Enter the address of an image, such as https://example.com/me.png.'),
}

interface Chosen {
  readonly file: File
  /** A `data:` URL. The page's policy allows no other source for a preview. */
  readonly preview: string
}

/** The image of the store. It is a URL, or a local file that is previewed before it is sent. */
export function AvatarImage({ profile, onChanged }: ImageProps) {
  const { api, refresh, publicUrl } = useSeller()
  const [chosen, setChosen] = useState<Chosen>()
  const [wrong, setWrong] = useState<string>()
  // Each choice has a new key, because a browser sends no event if the same file is chosen again.
  const [round, setRound] = useState(0)
  const isOurs = profile.avatarUrl.startsWith(`${publicUrl}/avatar/`)
  const action = useAction()
  const form = useForm({ avatarUrl: isOurs ? '' : profile.avatarUrl }, action, words)
  const again = () => {
    setChosen(undefined)
    setWrong(undefined)
    setRound((before) => before + 1)
  }
  const choose = async (event: Event) => {
    const [file] = (event.target as unknown as { files: readonly File[] }).files
    setChosen(undefined)
    setWrong(undefined)
    action.clear()
    if (file === undefined) return
    const read = await readImage(file)
    if (typeof read === 'string') setWrong(read)
    else setChosen({ file, preview: read.preview })
  }
  const save = async (body: unknown, doneText: string) => {
    const { avatarUrl } = await api<{ avatarUrl: string }>('POST', '/api/v1/avatar', body)
    onChanged({ ...profile, avatarUrl })
    again()
    showToast({ text: doneText })
    refresh()
  }
  const upload = () => {
    const body = new FormData()
    body.set('file', chosen!.file)
    void action.run(() => save(body, 'Your image was changed'))
  }
  const remove = () => action.run(() => save({ avatarUrl: null }, 'The image was removed'))
  const setByAddress = form.submit(({ avatarUrl }) => save({ avatarUrl: avatarUrl.trim() || null }, 'Saved'))
  const refused = wrong ?? form.errorAt('file')
  return html`<${Card} title="Image">
    <div class="stack">
      <div class="shell-picture">
        <${Avatar} name=${profile.displayName} isBig=${true} url=${chosen?.preview ?? (isOurs ? profile.avatarUrl : '')} />
        <div class="field">
          <label for="picture-file">${profile.avatarUrl === '' ? 'Choose an image' : 'Choose another image'}</label>
          <input key=${round} class="input shell-file" id="picture-file" type="file" accept=${types.join(',')} disabled=${action.isBusy}
            aria-describedby="picture-file-hint" aria-invalid=${refused && 'true'} onChange=${choose} />
          <p class="hint" id="picture-file-hint" aria-live="polite">${
            chosen === undefined
              ? 'PNG, JPEG, WebP or GIF, at most 1 MB. Location data is removed.'
              : 'Preview. Nothing has been sent yet.'
          }</p>
          ${refused && html`<p class="error" role="alert">${refused}</p>`}
        </div>
      </div>
      ${!isOurs && profile.avatarUrl !== '' && chosen === undefined && html`<p class="soft small shell-address">Shown from ${profile.avatarUrl}</p>`}
      ${form.line}
      ${
        chosen !== undefined &&
        html`<div class="row"><${Button} kind="primary" isBusy=${action.isBusy} onClick=${upload}>Use this image<//>
          <${Button} kind="quiet" onClick=${again}>Cancel<//></div>`
      }
      ${
        chosen === undefined &&
        profile.avatarUrl !== '' &&
        html`<div class="row"><${Button} kind="danger" size="small" isBusy=${action.isBusy} onClick=${remove}>Remove image<//></div>`
      }
      <details class="shell-more" open=${form.errorAt('avatarUrl') !== undefined}>
        <summary>Use an image on the web</summary>
        <form class="stack" ref=${form.ref} onSubmit=${setByAddress} novalidate>
          <${Field} ...${form.at('avatarUrl')} label="Address of the image" type="url" inputmode="url" placeholder="https://…"
            hint="The gateway stores no copy. Buyers' browsers load the image from this address." />
          <div class="row"><${Button} type="submit" isBusy=${action.isBusy}>Save address<//></div>
        </form>
      </details>
    </div>
  <//>`
}

/** Reads an image file that the gateway accepts. For any other file, returns the reason in words. */
async function readImage(file: File): Promise<{ readonly preview: string } | string> {
  if (!types.includes(file.type)) return `${file.name} is not a PNG, JPEG, WebP or GIF file.`
  if (file.size > MAX_BYTES)
    return `${file.name} is ${(file.size / MAX_BYTES).toFixed(1)} MB, and the limit is 1 MB. Make the file smaller first.`
  const preview = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(file)
  }).catch(() => undefined)
  const image = new Image()
  image.src = preview ?? ''
  const isThere = await image.decode().then(
    () => true,
    () => false,
  )
  if (preview === undefined || !isThere)
    return `${file.name} can’t be shown because the file is damaged or is not an image.`
  const { naturalWidth: width, naturalHeight: height } = image
  if (width > MAX_SIDE || height > MAX_SIDE)
    return `${file.name} is ${width} × ${height} pixels, and the limit is ${MAX_SIDE} per side. Scale the image down first.`
  return { preview }
}
