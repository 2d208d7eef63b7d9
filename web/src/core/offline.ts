// True while nothing was heard of the daemon for three seconds: what would ask it to do something is off.
import { computed } from "@preact/signals";
import { connection } from "../api/events";
import { now } from "./now";

const AFTER_MS = 3000;

export const offline = computed(() => !connection.value.live && now.value - connection.value.since >= AFTER_MS);

export const OFFLINE_WHY = "The daemon does not answer: this works again as soon as it does.";
