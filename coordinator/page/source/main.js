import "./embed.js";
